"""Common parts of all promotions: periods, references, conflicts of interest, cache invalidation and audit."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, any_, bindparam, select, text, update
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.catalog import texts
from marketplace.catalog.models import Product
from marketplace.catalog.promotions.models import Promotion
from marketplace.infra import outbox
from marketplace.infra.cache import drop_cached
from marketplace.infra.sql.statements import Statement
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
from marketplace.media.models import Image
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
    """A product that a promotion can show."""

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
    """Validate the period of a promotion.

    :param ends_at: None for an open end
    :param already_started: whether the start was accepted by an earlier request and may lie in the past
    :raises ValidationError: the start or end is in the past, the end is not after the start, or the period is too
        long
    """
    faults = []
    if not already_started and starts_at < now:
        faults.append(InvalidParam("startsAt", texts.STARTS_IN_PAST))
    if ends_at is not None:
        if ends_at <= starts_at:
            faults.append(InvalidParam("endsAt", texts.STARTS_AFTER_END))
        elif ends_at <= now:
            faults.append(InvalidParam("endsAt", texts.ENDS_IN_PAST))
        elif max_duration is not None and ends_at - starts_at > max_duration:
            faults.append(InvalidParam("endsAt", texts.LASTS_TOO_LONG.format(days=max_duration.days)))
    if faults:
        raise ValidationError(" ".join(fault.reason for fault in faults), invalid_params=faults)


def ensure_changeable(row: Promotion, *, revision: int | None, now: datetime) -> None:
    """Check that a promotion has not ended, and that the client read the current revision.

    :param row: the caller must hold the row lock
    :param revision: the revision that the client read, or None to skip the check
    :raises PromotionEndedError: the promotion has ended
    :raises StaleRevisionError: the revision is not current
    """
    if row.over_at is not None and row.over_at <= now:
        raise PromotionEndedError(texts.PROMOTION_ENDED.format(ended_at=iso(row.over_at)))
    StaleRevisionError.check(row.revision, revision)


_SELECT_PRODUCTS = Statement(
    select(Product.id, Product.campus_id, Product.status, VendorProfile.user_id)
    .join(VendorProfile, VendorProfile.id == Product.vendor_id)
    .where(Product.id == any_(bindparam("ids", type_=ARRAY(Uuid)))),
    row=PromotableProduct,
)


def find_promotable_products(
    session: Session, product_ids: Sequence[UUID], *, include_removed: bool = False
) -> dict[UUID, PromotableProduct]:
    """Find the products that a promotion can show, by id. Removed and deleted products are excluded.

    :param include_removed: whether to include removed and deleted products
    """
    return {
        product.id: product
        for product in _SELECT_PRODUCTS.all(session, ids=list(product_ids))
        if include_removed or product.status not in ("removed", "deleted")
    }


def ensure_not_own_store(owner_id: UUID, *, user_id: UUID) -> None:
    """Check that an officer does not promote products of their own store.

    :raises ConflictOfInterestError: the officer owns the store
    """
    if owner_id == user_id:
        raise ConflictOfInterestError(texts.OWN_STORE_PROMOTION)


_LOCK_READY_IMAGE = Statement(
    text(
        """
        SELECT id FROM images WHERE id = :image_id AND status = 'ready' AND purpose = 'product' FOR KEY SHARE
        """
    )
)


def ensure_references_exist(session: Session, fields: dict[str, Any]) -> None:
    """Check that the image and the campus of a promotion exist, if given.

    The image row is locked, so that the cleanup cannot delete an image in the meantime.

    :raises ValidationError: the image or the campus does not exist
    """
    faults = []
    image_id, campus_id = fields.get("image_id"), fields.get("campus_id")
    if image_id is not None and _LOCK_READY_IMAGE.first(session, image_id=image_id) is None:
        faults.append(InvalidParam("imageId", texts.IMAGE_NOT_FOUND))
    if campus_id is not None and session.get(Campus, campus_id) is None:
        faults.append(InvalidParam("campusId", "Campus not found."))
    if faults:
        raise ValidationError(" ".join(fault.reason for fault in faults), invalid_params=faults)


def schedule_boundaries(
    session: Session,
    *,
    boundaries: Iterable[datetime | None],
    tags: Sequence[str],
    now: datetime,
    product_id: UUID | None = None,
) -> None:
    """Schedule cache invalidation for the start and the end of a promotion.

    Each time becomes an outbox event that is due at that time. An event that a later change made obsolete is harmless.

    :param boundaries: past times are skipped, because the write itself dropped the cached content
    :param tags: cache tags to drop
    :param product_id: only for flash sales: the product whose current sale must be updated
    """
    for moment in boundaries:
        if moment is not None and moment > now:
            outbox.enqueue(
                session,
                # This queue is not delayed by slow providers or uploads, and its other tasks are time-critical too.
                queue=queues.ESCROW_RECONCILIATION,
                topic=BOUNDARY_TOPIC,
                payload={"tags": list(tags)} | ({"productId": str(product_id)} if product_id else {}),
                due_at=moment,
            )


@dataclass(frozen=True)
class PromotionType(Generic[PromotionT]):
    """A kind of promotion: create, change and end rows, with cache invalidation and audit.

    :ivar name: name in the audit trail, such as ``flash_sale``
    :ivar audited_columns: columns that the audit trail keeps
    :ivar tag: cache tag of content that shows these promotions
    :ivar max_duration: the maximum length of the period, or None for no limit
    """

    model: type[PromotionT]
    name: str
    audited_columns: Sequence[str]
    tag: str
    max_duration: timedelta | None = None

    def build(self, session: Session, act: Act, fields: dict[str, Any]) -> PromotionT:
        """Build a promotion that is not yet in a session.

        :param fields: columns; without ``starts_at`` the promotion starts now
        :raises ValidationError: the image or campus does not exist, or the period is invalid
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
        :raises ValidationError: the image or campus does not exist, or the period is invalid
        """
        return self.insert(session, act, self.build(session, act, fields))

    def update(
        self, session: Session, act: Act, row_id: UUID, *, revision: int | None, changes: dict[str, Any]
    ) -> None:
        """Change columns of a promotion that has not ended. A new image replaces the old image.

        The errors are those of ``lock_to_change``.
        """
        row = self.lock_to_change(session, act, row_id, revision=revision, changes=changes)
        self.change(session, act, row, changes)

    def insert(self, session: Session, act: Act, row: PromotionT) -> UUID:
        """Insert a built promotion, and return the new id."""
        session.add(row)
        session.flush()
        self.publish_and_audit(session, act, "create", row, before=None)
        return row.id

    def lock(self, session: Session, row_id: UUID) -> PromotionT:
        """Lock a promotion.

        :raises NotFoundError: the promotion does not exist
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
        """Lock a promotion and validate the changes that all kinds share.

        :param revision: the revision that the client read, or None to skip the check
        :param changes: columns
        :raises NotFoundError: the promotion does not exist
        :raises PromotionEndedError: the promotion has ended
        :raises StaleRevisionError: the revision is not current
        :raises PromotionStartedError: the promotion has started, and its start would change
        :raises ValidationError: as for ``build``
        """
        row = self.lock(session, row_id)
        ensure_changeable(row, revision=revision, now=act.now)
        starts_at, ends_at = changes.get("starts_at", row.starts_at), changes.get("ends_at", row.ends_at)
        start_changes = starts_at != row.starts_at
        if start_changes and row.starts_at <= act.now:
            raise PromotionStartedError.of("startsAt", "Cannot change after the promotion has started.")
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
        """Publish and audit the changes that the body makes to a locked promotion."""
        before = self.snapshot(session, row)
        yield
        session.flush()
        self.publish_and_audit(session, act, verb, row, before=before)

    def change(self, session: Session, act: Act, row: PromotionT, changes: dict[str, Any]) -> None:
        """Change columns of a locked promotion. A new image replaces the old image."""
        with self.recorded(session, act, "change", row):
            apply_changes(session, row, changes, now=act.now)

    def end(self, session: Session, act: Act, row_id: UUID) -> None:
        """End a promotion now.

        :raises NotFoundError: the promotion does not exist
        :raises PromotionEndedError: the promotion has already ended
        """
        row = self.lock(session, row_id)
        with self.recorded(session, act, "end", row):
            ensure_changeable(row, revision=None, now=act.now)
            row.ended_at, row.ended_by = act.now, act.person_id
            row.revision += 1
            row.updated_at = act.now

    def ensure_found(self, row: _FoundT | None) -> _FoundT:
        """Return the row of a promotion of this kind.

        :raises NotFoundError: the row is None
        """
        return found(row, f"{self.name.replace('_', ' ').capitalize()} not found.")

    def snapshot(self, session: Session, row: PromotionT) -> dict[str, Any]:
        """Return a promotion's audited columns as JSON values."""
        return {name: _to_json_value(getattr(row, name)) for name in self.audited_columns}

    def publish(self, session: Session, act: Act, row: PromotionT) -> None:
        """Drop cached content of a written promotion, now and at its future start and end."""
        drop_cached(session, self.tag)
        schedule_boundaries(session, boundaries=(row.starts_at, row.over_at), tags=(self.tag,), now=act.now)

    def publish_and_audit(
        self, session: Session, act: Act, verb: str, row: PromotionT, *, before: dict[str, Any] | None
    ) -> None:
        """Drop cached content of a written promotion, and record the write.

        :param before: snapshot before the write, or None for a new promotion
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
    """Change columns of a locked promotion. A new image replaces the old image.

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
    # Restart the grace period of the old image, so that the cleanup deletes the image if nothing else shows it.
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
