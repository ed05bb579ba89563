"""Saved views: filters of the inbox that a member of staff keeps under a name."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.kernel.errors import LimitReachedError, found
from marketplace.support import texts
from marketplace.support.models import SupportView

MAX_VIEWS = 20


def list_views(session: Session, *, owner_id: UUID) -> Sequence[SupportView]:
    """List the views of a person by name, at most ``MAX_VIEWS``."""
    return session.scalars(
        select(SupportView).where(SupportView.owner_id == owner_id).order_by(SupportView.name)
    ).all()


def save_view(session: Session, *, owner_id: UUID, name: str, filters: dict[str, Any]) -> SupportView:
    """Save filters under a name. A view with the same name is replaced.

    :param filters: in the API's names and formats
    :raises LimitReachedError: the person has ``MAX_VIEWS`` views
    """
    count = session.scalar(
        select(func.count())
        .select_from(SupportView)
        .where(SupportView.owner_id == owner_id, SupportView.name != name)
    )
    if (count or 0) >= MAX_VIEWS:
        raise LimitReachedError(texts.TOO_MANY_VIEWS.format(limit=MAX_VIEWS))
    return session.scalars(
        insert(SupportView)
        .values(owner_id=owner_id, name=name, filters=filters)
        .on_conflict_do_update(index_elements=("owner_id", "name"), set_={"filters": filters})
        .returning(SupportView),
        execution_options={"populate_existing": True},
    ).one()


def delete_view(session: Session, *, owner_id: UUID, view_id: UUID) -> None:
    """Delete a view of a person.

    :raises NotFoundError: the person has no such view
    """
    deleted = session.scalar(
        delete(SupportView)
        .where(SupportView.id == view_id, SupportView.owner_id == owner_id)
        .returning(SupportView.id)
    )
    found(deleted, texts.VIEW_NOT_FOUND)
