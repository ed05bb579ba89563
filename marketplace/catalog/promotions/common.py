"""What all promotions have in common: their windows, what they refer to, who may not, and the trail they leave."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, any_, bindparam, select, text, update
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.catalog.models import Image, Product
from marketplace.catalog.promotions.models import Promotion
from marketplace.infra import outbox
from marketplace.infra.cache import drop_cached
from marketplace.infra.db import Statement
from marketplace.kernel import queues
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import (
    ConflictError,
    ConflictOfInterestError,
    InvalidParam,
    StaleRevisionError,
    ValidationError,
    found,
)
from marketplace.platform.models import Campus
from marketplace.vendors.models import VendorProfile

BOUNDARY_TOPIC = "promotion.turn"
MAX_POSITION = 1_000


class PromotionEndedError(ConflictError):
    """The promotion has ended and can no longer be changed."""

    reason = "promotion-ended"


class PromotionStartedError(ValidationError):
    """The promotion has started, so its start can no longer be changed."""

    reason = "promotion-started"


PromotionT = TypeVar("PromotionT", bound=Promotion)
_FoundT = TypeVar("_FoundT")


@dataclass(frozen=True)
class PromotableProduct:
    """A product that a promotion shows."""

    id: UUID
    campus_id: UUID
    status: str
    user_id: UUID


def ensure_valid_window(
    *,
    starts_at: datetime,
    ends_at: datetime | None,
    now: datetime,
    already_started: bool = False,
    max_duration: timedelta | None = None,
) -> None:
    """Refuse a window that can't be meant.

    :param starts_at: its beginning
    :param ends_at: its end, or none if it has none
    :param now: the time of the request
    :param already_started: whether the beginning is one that was accepted before, and may have come
    :param max_duration: how long it may be at most
    :raises ValidationError: it begins or ends in the past, ends before it begins, or is too long
    """
    faults = []
    if not already_started and starts_at < now:
        faults.append(InvalidParam("startsAt", "Is in the past; leave it out to begin at once."))
    if ends_at is not None:
        if ends_at <= starts_at:
            faults.append(InvalidParam("endsAt", "Must be after startsAt."))
        elif ends_at <= now:
            faults.append(InvalidParam("endsAt", "Is in the past."))
        elif max_duration is not None and ends_at - starts_at > max_duration:
            faults.append(InvalidParam("endsAt", f"Must be at most {max_duration.days} days after startsAt."))
    if faults:
        raise ValidationError("The window can't be meant.", invalid_params=faults)


def ensure_changeable(row: Promotion, *, revision: int | None, now: datetime) -> None:
    """Refuse to change what is over, or what the client did not see as it is.

    :param row: the promotion, locked
    :param revision: the one that the client read, or none not to compare
    :param now: the time of the request
    :raises PromotionEndedError: it is over
    :raises StaleRevisionError: the revision is not the current one
    """
    if row.over_at is not None and row.over_at <= now:
        raise PromotionEndedError(f"It is over since {iso(row.over_at)}; make another one.")
    StaleRevisionError.check(row.revision, revision, subject="It is")


_SELECT_PRODUCTS = Statement(
    select(Product.id, Product.campus_id, Product.status, VendorProfile.user_id)
    .join(VendorProfile, VendorProfile.id == Product.vendor_id)
    .where(Product.id == any_(bindparam("ids", type_=ARRAY(Uuid)))),
    row=PromotableProduct,
)


def find_promotable_products(
    session: Session, product_ids: Sequence[UUID], *, include_removed: bool = False
) -> dict[UUID, PromotableProduct]:
    """Find the products that a promotion may show: neither taken down nor deleted.

    :param include_removed: whether those are found too
    """
    return {
        product.id: product
        for product in _SELECT_PRODUCTS.all(session, ids=list(product_ids))
        if include_removed or product.status not in ("removed", "deleted")
    }


def ensure_not_own_store(owner_id: UUID, *, user_id: UUID) -> None:
    """Refuse an officer who would promote what is sold in the own store.

    :raises ConflictOfInterestError: the caller runs the store
    """
    if owner_id == user_id:
        raise ConflictOfInterestError("Nobody promotes what the own store sells: ask another officer.")


_LOCK_READY_IMAGE = Statement(
    text("SELECT id FROM images WHERE id = :image_id AND status = 'ready' FOR KEY SHARE")
)


def ensure_references_exist(session: Session, fields: dict[str, Any]) -> None:
    """Check that the picture and the campus of a promotion exist, where it names them.

    A picture is locked, so that it is not cleared away while it is taken.

    :raises ValidationError: one of them does not
    """
    faults = []
    image_id, campus_id = fields.get("image_id"), fields.get("campus_id")
    if image_id is not None and _LOCK_READY_IMAGE.first(session, image_id=image_id) is None:
        faults.append(InvalidParam("imageId", "There is no such picture."))
    if campus_id is not None and session.get(Campus, campus_id) is None:
        faults.append(InvalidParam("campusId", "There is no such campus."))
    if faults:
        raise ValidationError("It names what does not exist.", invalid_params=faults)


def schedule_boundaries(
    session: Session,
    *,
    boundaries: Iterable[datetime | None],
    tags: Sequence[str],
    now: datetime,
    product_id: UUID | None = None,
) -> None:
    """Have cached content dropped when a promotion begins and when it ends.

    Each moment becomes a row of the outbox that is due then. One that was overtaken by a change does no harm.

    :param boundaries: when; those that have come are left out, what was written having dropped the content
    :param tags: what the content depends on
    :param product_id: of a flash sale: the product whose next sale it may be by then
    """
    for moment in boundaries:
        if moment is not None and moment > now:
            outbox.enqueue(
                session,
                # Neither slow providers nor uploads hold up this queue, whose other tasks depend on the time too.
                queue=queues.ESCROW_RECONCILIATION,
                topic=BOUNDARY_TOPIC,
                payload={"tags": list(tags)} | ({"productId": str(product_id)} if product_id else {}),
                due_at=moment,
            )


@dataclass(frozen=True)
class PromotionType(Generic[PromotionT]):
    """One kind of promotion: its rows are created, changed and ended, cached content and audit trail following.

    :ivar name: of the audit trail, such as ``flash_sale``
    :ivar audited_columns: columns that the audit trail keeps
    :ivar tag: of the cached content that shows these promotions
    :ivar max_duration: of their windows, or none
    """

    model: type[PromotionT]
    name: str
    audited_columns: Sequence[str]
    tag: str
    max_duration: timedelta | None = None

    def build(self, session: Session, act: Act, fields: dict[str, Any]) -> PromotionT:
        """Make a promotion that is in no session yet.

        :param fields: columns; starts_at is none for now
        :raises ValidationError: no such picture or campus, or the window can't be meant
        """
        starts_at = fields.get("starts_at") or act.now
        ensure_valid_window(
            starts_at=starts_at,
            ends_at=fields.get("ends_at"),
            now=act.now,
            max_duration=self.max_duration,
        )
        ensure_references_exist(session, fields)
        origin = {"created_by": act.person_id, "created_at": act.now, "updated_at": act.now}
        return self.model(**fields | {"starts_at": starts_at} | origin)

    def create(self, session: Session, act: Act, fields: dict[str, Any]) -> UUID:
        """Create a promotion.

        :param fields: columns; without ``starts_at`` the promotion starts now
        :return: the promotion's id
        :raises ValidationError: no such picture or campus, or the window can't be meant
        """
        return self.insert(session, act, self.build(session, act, fields))

    def update(
        self, session: Session, act: Act, row_id: UUID, *, revision: int | None, changes: dict[str, Any]
    ) -> None:
        """Change columns of a promotion that has not ended; a new picture replaces the old one.

        :raises NotFoundError: see ``lock_to_change``, as for the other errors
        """
        row = self.lock_to_change(session, act, row_id, revision=revision, changes=changes)
        self.change(session, act, row, changes)

    def insert(self, session: Session, act: Act, row: PromotionT) -> UUID:
        """Add a promotion that was built, and give its id."""
        session.add(row)
        session.flush()
        self.publish_and_audit(session, act, "create", row, before=None)
        return row.id

    def lock(self, session: Session, row_id: UUID) -> PromotionT:
        """Lock a promotion.

        :raises NotFoundError: there is none
        """
        return self.ensure_found(
            session.scalar(
                select(self.model).where(self.model.id == row_id).with_for_update(key_share=True),
                execution_options={"populate_existing": True},
            )
        )

    def lock_to_change(
        self, session: Session, act: Act, row_id: UUID, *, revision: int | None, changes: dict[str, Any]
    ) -> PromotionT:
        """Lock a promotion and check the changes that are common to all kinds.

        :param revision: the one that the client read, or none not to compare
        :param changes: columns
        :raises NotFoundError: there is none
        :raises PromotionEndedError: it is over
        :raises StaleRevisionError: the revision is not the current one
        :raises PromotionStartedError: it has begun and its beginning would change
        :raises ValidationError: as for ``build``
        """
        row = self.lock(session, row_id)
        ensure_changeable(row, revision=revision, now=act.now)
        starts_at, ends_at = changes.get("starts_at", row.starts_at), changes.get("ends_at", row.ends_at)
        start_changes = starts_at != row.starts_at
        if start_changes and row.starts_at <= act.now:
            raise PromotionStartedError.of("startsAt", "It has begun, so that its beginning stays.")
        if start_changes or ends_at != row.ends_at:
            ensure_valid_window(
                starts_at=starts_at,
                ends_at=ends_at,
                now=act.now,
                already_started=not start_changes,
                max_duration=self.max_duration,
            )
        ensure_references_exist(session, changes)
        return row

    @contextmanager
    def recorded(self, session: Session, act: Act, verb: str, row: PromotionT) -> Iterator[None]:
        """Publish and audit what the body does to a locked promotion."""
        before = self.snapshot(session, row)
        yield
        session.flush()
        self.publish_and_audit(session, act, verb, row, before=before)

    def change(self, session: Session, act: Act, row: PromotionT, changes: dict[str, Any]) -> None:
        """Change columns of a locked promotion; a new picture takes the place of the old one."""
        with self.recorded(session, act, "change", row):
            apply_changes(session, row, changes, now=act.now)

    def end(self, session: Session, act: Act, row_id: UUID) -> None:
        """End a promotion now.

        :raises NotFoundError: there is none
        :raises PromotionEndedError: it is over already
        """
        row = self.lock(session, row_id)
        with self.recorded(session, act, "end", row):
            ensure_changeable(row, revision=None, now=act.now)
            row.ended_at, row.ended_by = act.now, act.person_id
            row.revision += 1
            row.updated_at = act.now

    def ensure_found(self, row: _FoundT | None) -> _FoundT:
        """Give a row that belongs to a promotion of this kind.

        :raises NotFoundError: there is none
        """
        return found(row, f"There is no such {self.name.replace('_', ' ')}.")

    def snapshot(self, session: Session, row: PromotionT) -> dict[str, Any]:
        """Write a promotion as the audit trail keeps it: as JSON scalars."""
        return {name: _to_json_value(getattr(row, name)) for name in self.audited_columns}

    def publish(self, session: Session, act: Act, row: PromotionT) -> None:
        """Drop what a written promotion made stale, now and at its boundaries to come."""
        drop_cached(session, self.tag)
        schedule_boundaries(session, boundaries=(row.starts_at, row.over_at), tags=(self.tag,), now=act.now)

    def publish_and_audit(
        self, session: Session, act: Act, verb: str, row: PromotionT, *, before: dict[str, Any] | None
    ) -> None:
        """Drop what a written promotion made stale, and record the write.

        :param before: its snapshot before, or none if it is new
        """
        self.publish(session, act, row)
        record_audit_entry(
            session,
            act=act,
            action=f"{self.name}.{verb}",
            target_type=self.name,
            target_id=str(row.id),
            before=before,
            after=self.snapshot(session, row),
        )


def apply_changes(session: Session, row: Any, changes: dict[str, Any], *, now: datetime) -> None:
    """Change a locked promotion; a new picture takes the place of the old one.

    :param changes: columns
    """
    old_image_id = getattr(row, "image_id", None)
    if "image_id" in changes or "image_url" in changes:
        changes = {"image_id": None, "image_url": None} | changes
    for name, value in changes.items():
        setattr(row, name, value)
    row.revision += 1
    row.updated_at = now
    session.flush()
    # The clean-up looks at a picture again that nothing may show any longer.
    if old_image_id is not None and row.image_id != old_image_id:
        session.execute(
            update(Image)
            .where(Image.id == old_image_id, Image.unused_since.is_(None))
            .values(unused_since=now)
        )


def _to_json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    return str(value) if isinstance(value, UUID) else value
