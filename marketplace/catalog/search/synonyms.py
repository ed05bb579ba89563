"""What is called by several names: staff keep the list, and the next search goes by it."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
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
    """List the groups of synonyms, the first made first."""
    clause = select(SearchSynonyms).order_by(SearchSynonyms.id).limit(page.limit + 1)
    [last_id] = page.after("id")
    if last_id is not None:
        clause = clause.where(SearchSynonyms.id > UUID(last_id))
    return page_of(list(session.scalars(clause)), request=page, position_of=lambda row: [str(row.id)])


def create_synonyms(session: Session, act: Act, *, terms: Sequence[str]) -> SearchSynonyms:
    """Add a group of synonyms.

    :param terms: words or phrases that mean the same; they are folded as searches are
    :return: the group
    :raises ValidationError: fewer than two are left, or one has no words, or too many
    :raises LimitReachedError: there are as many groups as there may be
    """
    if (session.scalar(select(func.count()).select_from(SearchSynonyms)) or 0) >= _MAX_GROUPS:
        raise LimitReachedError(f"There are {_MAX_GROUPS} groups of synonyms; delete one first.")
    row = SearchSynonyms(terms=_normalize_terms(terms), created_at=act.now, updated_at=act.now)
    session.add(row)
    session.flush()
    _record_audit(session, act, "create", row.id, before=None, after=row.terms)
    return row


def update_synonyms(
    session: Session, act: Act, *, synonyms_id: UUID, revision: int | None, terms: Sequence[str]
) -> SearchSynonyms:
    """Replace the terms of a group.

    :param synonyms_id: which
    :param revision: the one that the client read, or none not to compare
    :param terms: as for ``create_synonyms``
    :return: the group
    :raises NotFoundError: there is none
    :raises StaleRevisionError: the revision is not the current one
    :raises ValidationError: as for ``create_synonyms``
    """
    row = _lock_synonyms(session, synonyms_id)
    StaleRevisionError.check(row.revision, revision, subject="The synonyms are", pronoun="them")
    before, after = row.terms, _normalize_terms(terms)
    if after != before:
        row.terms = after
        row.revision += 1
        row.updated_at = act.now
        _record_audit(session, act, "change", row.id, before=before, after=after)
    return row


def delete_synonyms(session: Session, act: Act, *, synonyms_id: UUID) -> None:
    """Delete a group.

    :raises NotFoundError: there is none
    """
    row = _lock_synonyms(session, synonyms_id)
    session.delete(row)
    _record_audit(session, act, "delete", row.id, before=row.terms, after=None)


def _lock_synonyms(session: Session, synonyms_id: UUID) -> SearchSynonyms:
    row = session.get(SearchSynonyms, synonyms_id, with_for_update=True, populate_existing=True)
    return found(row, "There are no such synonyms.")


def _normalize_terms(terms: Sequence[str]) -> list[str]:
    """Fold the terms as queries are; what differs only in that is one."""
    split = [tokenize(term, limit=MAX_TERM_WORDS + 1) for term in terms]
    faults = [
        InvalidParam(f"terms[{index}]", f"Must have one to {MAX_TERM_WORDS} words.")
        for index, words in enumerate(split)
        if not 1 <= len(words) <= MAX_TERM_WORDS
    ]
    if faults:
        raise ValidationError("Not all terms can be searched.", invalid_params=faults)
    folded = list(dict.fromkeys(" ".join(words) for words in split))
    if len(folded) < 2:
        raise ValidationError.of("terms", "Must be at least two that differ in more than case and accents.")
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
