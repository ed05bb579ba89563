"""Canned replies: texts that staff send often."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.kernel.errors import ConflictError, LimitReachedError, StaleRevisionError, found
from marketplace.support import texts
from marketplace.support.models import SupportCannedReply

MAX_REPLIES = 200


class TitleTakenError(ConflictError):
    """Another canned reply has the title."""

    reason = "title-taken"


@dataclass(frozen=True)
class CannedReplyFields:
    """The fields of a canned reply. None keeps a value in an update."""

    title: str | None = None
    body: str | None = None


def list_canned_replies(session: Session) -> Sequence[SupportCannedReply]:
    """List all canned replies by title, at most ``MAX_REPLIES``."""
    return session.scalars(select(SupportCannedReply).order_by(SupportCannedReply.title)).all()


def create_canned_reply(session: Session, *, title: str, body: str, act: Act) -> SupportCannedReply:
    """Create a canned reply.

    :raises TitleTakenError: another reply has the title
    :raises LimitReachedError: there are ``MAX_REPLIES`` replies
    """
    if len(list_canned_replies(session)) >= MAX_REPLIES:
        raise LimitReachedError(texts.TOO_MANY_CANNED_REPLIES.format(limit=MAX_REPLIES))
    created = SupportCannedReply(title=title, body=body, created_at=act.now, updated_at=act.now)
    with _unique_title(session):
        session.add(created)
        session.flush()
    _record(session, created, "create", act, before=None)
    return created


def update_canned_reply(
    session: Session, *, reply_id: UUID, fields: CannedReplyFields, revision: int | None, act: Act
) -> SupportCannedReply:
    """Change a canned reply.

    :raises NotFoundError: the reply does not exist
    :raises StaleRevisionError: the reply changed meanwhile
    :raises TitleTakenError: another reply has the title
    """
    stored = _lock(session, reply_id)
    StaleRevisionError.check(stored.revision, revision)
    before = {"title": stored.title, "body": stored.body}
    with _unique_title(session):
        stored.title, stored.body = fields.title or stored.title, fields.body or stored.body
        stored.revision, stored.updated_at = stored.revision + 1, act.now
        session.flush()
    _record(session, stored, "update", act, before=before)
    return stored


def delete_canned_reply(session: Session, *, reply_id: UUID, act: Act) -> None:
    """Delete a canned reply.

    :raises NotFoundError: the reply does not exist
    """
    stored = _lock(session, reply_id)
    _record(session, stored, "delete", act, before={"title": stored.title, "body": stored.body})
    session.delete(stored)
    session.flush()


def _lock(session: Session, reply_id: UUID) -> SupportCannedReply:
    stored = session.get(SupportCannedReply, reply_id, with_for_update=True, populate_existing=True)
    return found(stored, texts.CANNED_REPLY_NOT_FOUND)


@contextmanager
def _unique_title(session: Session) -> Iterator[None]:
    try:
        with session.begin_nested():
            yield
    except IntegrityError as error:
        raise TitleTakenError(texts.TITLE_TAKEN) from error


def _record(
    session: Session, stored: SupportCannedReply, action: str, act: Act, *, before: dict[str, str] | None
) -> None:
    record_audit_entry(
        session,
        act=act,
        action=f"canned_reply.{action}",
        target_type="canned_reply",
        target_id=str(stored.id),
        before=before,
        after=None if action == "delete" else {"title": stored.title, "body": stored.body},
    )
