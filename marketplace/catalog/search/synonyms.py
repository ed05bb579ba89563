"""Synonym groups, maintained by staff. A change takes effect with the next search."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.catalog import texts
from marketplace.catalog.search.models import SearchSynonyms
from marketplace.catalog.search.tokenizer import tokenize
from marketplace.kernel.errors import (
    InvalidParam,
    LimitReachedError,
    StaleRevisionError,
    ValidationError,
    found,
)
from marketplace.kernel.paging import Page, PageRequest, page_of

MAX_TERMS = 12
MAX_TERM_WORDS = 4
MAX_TERM_LENGTH = 60
_MAX_GROUPS = 2_000


def list_synonyms(session: Session, *, page: PageRequest) -> Page:
    """List the synonym groups, oldest first."""
    clause = select(SearchSynonyms).order_by(SearchSynonyms.id).limit(page.limit + 1)
    [last_id] = page.after("id")
    if last_id is not None:
        clause = clause.where(SearchSynonyms.id > UUID(last_id))
    return page_of(list(session.scalars(clause)), request=page, position_of=lambda row: [str(row.id)])


def create_synonyms(session: Session, act: Act, *, terms: Sequence[str]) -> SearchSynonyms:
    """Create a synonym group.

    :param terms: words or phrases with the same meaning; stored folded
    :raises ValidationError: fewer than two distinct terms remain, or a term has no words or too many
    :raises LimitReachedError: the maximum number of groups is reached
    """
    if (session.scalar(select(func.count()).select_from(SearchSynonyms)) or 0) >= _MAX_GROUPS:
        raise LimitReachedError(texts.TOO_MANY_SYNONYM_GROUPS.format(maximum=_MAX_GROUPS))
    row = SearchSynonyms(terms=_normalize_terms(terms), created_at=act.now, updated_at=act.now)
    session.add(row)
    session.flush()
    _record_audit(session, act, "create", row.id, before=None, after=row.terms)
    return row


def update_synonyms(
    session: Session, act: Act, *, synonyms_id: UUID, revision: int | None, terms: Sequence[str]
) -> SearchSynonyms:
    """Replace the terms of a synonym group.

    :param revision: the revision that the client read, or None to skip the check
    :param terms: as for ``create_synonyms``
    :raises NotFoundError: the group does not exist
    :raises StaleRevisionError: the revision is not current
    :raises ValidationError: as for ``create_synonyms``
    """
    row = _lock_synonyms(session, synonyms_id)
    StaleRevisionError.check(row.revision, revision)
    before, after = row.terms, _normalize_terms(terms)
    if after != before:
        row.terms = after
        row.revision += 1
        row.updated_at = act.now
        _record_audit(session, act, "change", row.id, before=before, after=after)
    return row


def delete_synonyms(session: Session, act: Act, *, synonyms_id: UUID) -> None:
    """Delete a synonym group.

    :raises NotFoundError: the group does not exist
    """
    row = _lock_synonyms(session, synonyms_id)
    session.delete(row)
    _record_audit(session, act, "delete", row.id, before=row.terms, after=None)


def _lock_synonyms(session: Session, synonyms_id: UUID) -> SearchSynonyms:
    row = session.get(SearchSynonyms, synonyms_id, with_for_update=True, populate_existing=True)
    return found(row, "Synonym group not found.")


def _normalize_terms(terms: Sequence[str]) -> list[str]:
    """Fold the terms like queries, and drop duplicates."""
    split = [tokenize(term, limit=MAX_TERM_WORDS + 1) for term in terms]
    faults = [
        InvalidParam(f"terms[{index}]", f"Must have 1 to {MAX_TERM_WORDS} words.")
        for index, words in enumerate(split)
        if not 1 <= len(words) <= MAX_TERM_WORDS
    ]
    if faults:
        raise ValidationError(
            texts.SYNONYM_TERMS_INVALID.format(maximum=MAX_TERM_WORDS), invalid_params=faults
        )
    folded = list(dict.fromkeys(" ".join(words) for words in split))
    if len(folded) < 2:
        raise ValidationError.of(
            "terms", "Must have at least two terms that differ in more than case and accents."
        )
    return folded


def _record_audit(
    session: Session,
    act: Act,
    verb: str,
    synonyms_id: UUID,
    *,
    before: Sequence[str] | None,
    after: Sequence[str] | None,
) -> None:
    record_audit_entry(
        session,
        act=act,
        action=f"search_synonyms.{verb}",
        target_type="search_synonyms",
        target_id=str(synonyms_id),
        before=None if before is None else {"terms": list(before)},
        after=None if after is None else {"terms": list(after)},
    )
