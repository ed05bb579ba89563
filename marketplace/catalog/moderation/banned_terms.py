"""The table of what may not be sold, as staff keep it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.catalog.models import BannedTerm
from marketplace.catalog.moderation.banned_words import words_of
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, NotFoundError, ValidationError
from marketplace.kernel.paging import Page, PageRequest, page_of

_COLUMNS = (
    BannedTerm.id,
    BannedTerm.term,
    BannedTerm.category,
    BannedTerm.exceptions,
    BannedTerm.note,
    BannedTerm.created_at.label("createdAt"),
)
_PAGE = Statement(
    select(*_COLUMNS)
    .where(BannedTerm.term > bindparam("after"))
    .order_by(BannedTerm.term)
    .limit(bindparam("limit"))
)
_INSERT = Statement(
    insert(BannedTerm).on_conflict_do_nothing(index_elements=("term",)).returning(*_COLUMNS),
    columns=("term", "category", "exceptions", "note", "created_by", "created_at"),
)


class KnownTermError(ConflictError):
    """The term is in the table already."""


def list_terms(session: Session, *, page: PageRequest) -> Page:
    """List the terms in their alphabet.

    :param page: which; its position is the last term shown
    """
    [after] = page.after("text")
    rows = _PAGE.all(session, after=after or "", limit=page.limit + 1)
    return page_of(rows, request=page, position_of=lambda row: [row["term"]])


def add_term(
    session: Session,
    *,
    actor: AuditActor,
    term: str,
    category: str,
    exceptions: Sequence[str],
    note: str | None,
    now: datetime,
) -> dict[str, Any]:
    """Ban a term, from the next screening on.

    :param actor: who does, as the audit trail names one
    :param term: a word or a phrase; it is kept as the screening folds it
    :param category: one of ``banned.CATEGORIES``
    :param exceptions: phrases that hold the term, and in which it is harmless
    :param note: for other staff
    :param now: the time of the request
    :return: the row, as it is listed
    :raises ValidationError: the term has no letters or digits, or an exception does not hold it
    :raises KnownTermError: it is banned already
    """
    words = words_of(term)
    if len("".join(words)) < 2:
        raise ValidationError.of("term", "Must have two letters or digits at least.")
    phrases = [words_of(phrase) for phrase in exceptions]
    for index, phrase in enumerate(phrases):
        if not _holds(phrase, words):
            raise ValidationError.of(f"exceptions[{index}]", "Must be a phrase that holds the term.")
    row = _INSERT.first(
        session,
        term=" ".join(words),
        category=category,
        exceptions=list(dict.fromkeys(" ".join(phrase) for phrase in phrases)),
        note=note,
        created_by=actor.id,
        created_at=now,
    )
    if row is None:
        raise KnownTermError("The term is in the table already.")
    _record(session, actor, "ban", row["id"], now=now, after=_state_of(row))
    return row


def drop_term(session: Session, *, actor: AuditActor, term_id: UUID, now: datetime) -> None:
    """Allow a term again.

    :raises NotFoundError: there is no such term
    """
    term = session.get(BannedTerm, term_id, with_for_update=True)
    if term is None:
        raise NotFoundError("There is no such term.")
    before = _state_of({name: getattr(term, name) for name in ("term", "category", "exceptions", "note")})
    session.delete(term)
    _record(session, actor, "allow", term_id, now=now, before=before)


def _holds(phrase: Sequence[str], words: Sequence[str]) -> bool:
    starts = range(len(phrase) - len(words) + 1)
    return len(phrase) > len(words) and any(
        tuple(phrase[start : start + len(words)]) == tuple(words) for start in starts
    )


def _state_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("term", "category", "exceptions", "note")}


def _record(
    session: Session,
    actor: AuditActor,
    act: str,
    term_id: UUID,
    *,
    now: datetime,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    record(
        session,
        actor=actor,
        action=f"banned_term.{act}",
        target_type="banned_term",
        target_id=str(term_id),
        now=now,
        before=before,
        after=after,
    )
