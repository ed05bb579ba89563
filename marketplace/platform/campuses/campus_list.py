"""Campuses: public and staff lists, and changes by staff."""

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam, or_, select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.db import violated_constraint
from marketplace.infra.sql.statements import Prepared
from marketplace.kernel import queues
from marketplace.kernel.errors import ConflictError, InvalidParam, NotFoundError, StaleRevisionError, found
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.platform import texts
from marketplace.platform.models import Campus, CampusEmailDomain

RENAMED_TOPIC = "campus.renamed"
SLUG_PATTERN = "[a-z0-9]+(?:-[a-z0-9]+)*"
_SLUG = re.compile(SLUG_PATTERN)
_AUDITED_COLUMNS = ("name", "slug", "active")


class CampusSlugTakenError(ConflictError):
    """Another campus has this slug."""

    reason = "campus-slug-taken"


@dataclass(frozen=True)
class StaffCampus:
    """A campus for staff, with e-mail domains."""

    id: UUID
    name: str
    slug: str
    active: bool
    domains: list[str]
    revision: int
    created_at: datetime
    updated_at: datetime


def find_campus(session: Session, campus: str) -> Campus:
    """Find a campus by id or slug, also an inactive campus.

    :raises NotFoundError: the campus does not exist
    """
    campus_id, slug = _parse_name(campus)
    is_named = Campus.slug == slug if campus_id is None else Campus.id == campus_id
    return found(session.scalar(select(Campus).where(is_named)), texts.CAMPUS_NOT_FOUND)


_SELECT_ACTIVE_ID = Prepared(
    select(Campus.id).where(
        Campus.active, or_(Campus.id == bindparam("campus_id"), Campus.slug == bindparam("slug"))
    )
)


def find_active_campus_id(session: Session, campus: str) -> UUID:
    """Find an active campus by id or slug.

    :raises NotFoundError: the campus does not exist or is inactive
    """
    campus_id, slug = _parse_name(campus)
    found_id: UUID | None = _SELECT_ACTIVE_ID.scalar(session, campus_id=campus_id, slug=slug)
    return found(found_id, texts.CAMPUS_NOT_FOUND)


def _parse_name(campus: str) -> tuple[UUID | None, str | None]:
    """Return the id or the slug that names a campus. Slugs never look like ids."""
    campus_id = parse_uuid(campus)
    if campus_id is not None:
        return campus_id, None
    if not _SLUG.fullmatch(campus):
        # The database refuses characters such as NUL.
        raise NotFoundError(texts.CAMPUS_NOT_FOUND)
    return None, campus


def lock_campus(session: Session, *, campus_id: UUID) -> Campus:
    """Lock a campus, so that changes of the campus run one after the other.

    :raises NotFoundError: the campus does not exist
    """
    return found(
        session.scalar(
            select(Campus).where(Campus.id == campus_id).with_for_update(key_share=True),
            execution_options={"populate_existing": True},
        ),
        texts.CAMPUS_NOT_FOUND,
    )


def list_campuses(session: Session, *, page: PageRequest) -> Page:
    """List the active campuses by name."""
    return _list_page(session, page, [Campus.active.is_(True)])


def list_campuses_for_staff(session: Session, *, page: PageRequest) -> Page:
    """List all campuses with e-mail domains by name, in two queries."""
    found_page = _list_page(session, page, [])
    views = _build_staff_views(session, found_page.items)
    return Page(views, found_page.limit, found_page.next_position)


def show_campus(session: Session, *, campus_id: UUID) -> StaffCampus:
    """Show a campus for staff.

    :raises NotFoundError: the campus does not exist
    """
    campus = found(session.get(Campus, campus_id, populate_existing=True), texts.CAMPUS_NOT_FOUND)
    return _build_staff_views(session, [campus])[0]


def create_campus(session: Session, *, name: str, slug: str, act: Act) -> UUID:
    """Create a campus.

    :param slug: a permanent name for URLs
    :raises CampusSlugTakenError: another campus has the slug
    """
    campus = Campus(name=name, slug=slug, created_at=act.now, updated_at=act.now)
    try:
        with session.begin_nested():
            session.add(campus)
            session.flush()
    except IntegrityError as error:
        if violated_constraint(error) != "uq_campuses_slug":
            raise
        raise CampusSlugTakenError(
            texts.CAMPUS_SLUG_TAKEN.format(slug=slug),
            invalid_params=[InvalidParam("slug", texts.CAMPUS_SLUG_TAKEN.format(slug=slug))],
        ) from error
    _record(session, act, "create", campus, before=None)
    return campus.id


def update_campus(
    session: Session, *, campus_id: UUID, changes: dict[str, Any], revision: int | None, act: Act
) -> None:
    """Rename, hide or show a campus.

    Open orders, stores and people of an inactive campus are unchanged.

    :param changes: ``name`` and ``active``
    :param revision: the revision that the client read, or None to skip the check
    :raises NotFoundError: the campus does not exist
    :raises StaleRevisionError: the revision is not current
    """
    campus = lock_campus(session, campus_id=campus_id)
    StaleRevisionError.check(campus.revision, revision)
    before = _snapshot(campus)
    for name, value in changes.items():
        setattr(campus, name, value)
    campus.revision += 1
    campus.updated_at = act.now
    session.flush()
    _record(session, act, "change", campus, before=before)
    if campus.name != before["name"]:
        # Cached product pages show the name of the campus.
        outbox.enqueue(
            session,
            queue=queues.ESCROW_RECONCILIATION,
            topic=RENAMED_TOPIC,
            payload={"campusId": str(campus_id)},
            due_at=act.now,
        )


def _list_page(session: Session, page: PageRequest, conditions: list[ColumnElement[bool]]) -> Page:
    name, campus_id = page.after("text", "id")
    if name is not None:
        conditions = [*conditions, tuple_(Campus.name, Campus.id) > tuple_(name, UUID(campus_id))]
    rows = session.scalars(
        select(Campus).where(*conditions).order_by(Campus.name, Campus.id).limit(page.limit + 1)
    )
    return page_of(list(rows), request=page, position_of=lambda campus: [campus.name, str(campus.id)])


def _build_staff_views(session: Session, campuses: list[Campus]) -> list[StaffCampus]:
    domains: defaultdict[UUID, list[str]] = defaultdict(list)
    for campus_id, domain in session.execute(
        select(CampusEmailDomain.campus_id, CampusEmailDomain.domain)
        .where(CampusEmailDomain.campus_id.in_([campus.id for campus in campuses]))
        .order_by(CampusEmailDomain.domain)
    ):
        domains[campus_id].append(domain)
    return [
        StaffCampus(
            id=campus.id,
            name=campus.name,
            slug=campus.slug,
            active=campus.active,
            domains=domains[campus.id],
            revision=campus.revision,
            created_at=campus.created_at,
            updated_at=campus.updated_at or campus.created_at,
        )
        for campus in campuses
    ]


def _snapshot(campus: Campus) -> dict[str, Any]:
    return {name: getattr(campus, name) for name in _AUDITED_COLUMNS}


def _record(session: Session, act: Act, verb: str, campus: Campus, *, before: dict[str, Any] | None) -> None:
    record_audit_entry(
        session,
        act=act,
        action=f"campus.{verb}",
        target_type="campus",
        target_id=str(campus.id),
        before=before,
        after=_snapshot(campus),
    )
