"""Banned terms: the table of words for goods that may not be sold, maintained by staff."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.catalog.models import BannedTerm
from marketplace.catalog.moderation.banned_word_matcher import tokenize_phrase
from marketplace.kernel.errors import ConflictError, ValidationError, found
from marketplace.kernel.paging import Page, PageRequest, page_of


class TermAlreadyBannedError(ConflictError):
    """The term is already in the table of banned terms."""

    reason = "term-already-banned"


def list_terms(session: Session, *, page: PageRequest) -> Page:
    """List banned terms in alphabetical order.

    :param page: the cursor position is the last term shown
    """
    [after] = page.after("text")
    clause = select(BannedTerm).where(BannedTerm.term > (after or "")).order_by(BannedTerm.term)
    return page_of(
        list(session.scalars(clause.limit(page.limit + 1))),
        request=page,
        position_of=lambda term: [term.term],
    )


def add_term(
    session: Session,
    *,
    act: Act,
    term: str,
    category: str,
    exceptions: Sequence[str],
    note: str | None,
) -> BannedTerm:
    """Ban a term from the next screening on.

    :param term: a word or phrase; stored as the screening folds words
    :param category: a key of ``banned_word_matcher.BANNED_CATEGORIES``
    :param exceptions: phrases that contain the term and are harmless
    :param note: for other staff
    :return: the new row
    :raises ValidationError: the term has fewer than two letters or digits, or an exception does not contain the term
    :raises TermAlreadyBannedError: the term is already banned
    """
    words = tokenize_phrase(term)
    if len("".join(words)) < 2:
        raise ValidationError.of("term", "Must have at least two letters or digits.")
    phrases = [tokenize_phrase(phrase) for phrase in exceptions]
    for index, phrase in enumerate(phrases):
        if not _contains_words(phrase, words):
            raise ValidationError.of(
                f"exceptions[{index}]", "Must be a longer phrase that contains the term."
            )
    banned_term: BannedTerm | None = session.scalar(
        insert(BannedTerm)
        .values(
            term=" ".join(words),
            category=category,
            exceptions=list(dict.fromkeys(" ".join(phrase) for phrase in phrases)),
            note=note,
            created_by=act.user_id,
            created_at=act.now,
        )
        .on_conflict_do_nothing(index_elements=("term",))
        .returning(BannedTerm)
    )
    if banned_term is None:
        raise TermAlreadyBannedError("The term is already banned.")
    record_audit_entry(
        session,
        act=act,
        action="banned_term.ban",
        target_type="banned_term",
        target_id=str(banned_term.id),
        after=_audit_snapshot(banned_term),
    )
    return banned_term


def remove_term(session: Session, *, act: Act, term_id: UUID) -> None:
    """Allow a banned term again.

    :raises NotFoundError: the term does not exist
    """
    term = found(session.get(BannedTerm, term_id, with_for_update=True), "Banned term not found.")
    record_audit_entry(
        session,
        act=act,
        action="banned_term.allow",
        target_type="banned_term",
        target_id=str(term_id),
        before=_audit_snapshot(term),
    )
    session.delete(term)


def _contains_words(phrase: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return len(phrase) > len(words) and any(
        phrase[start : start + len(words)] == words for start in range(len(phrase) - len(words) + 1)
    )


def _audit_snapshot(term: BannedTerm) -> dict[str, Any]:
    return {name: getattr(term, name) for name in ("term", "category", "exceptions", "note")}
