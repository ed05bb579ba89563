"""Automated review of listings: submit, screen by rules and provider, then publish or hold for staff.

The review has three phases, because the provider is called without an open transaction. ``read_and_screen`` reads the
listing, ``check_with_provider`` calls the provider, and ``publish_or_hold`` applies the result if the listing is
unchanged. A change in the meantime has an event of its own, which starts a new review.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Select, select, text
from sqlalchemy.orm import Session

from marketplace.catalog import states, texts
from marketplace.catalog.listing_changes import propagate_listing_change
from marketplace.catalog.models import BannedTerm, Product
from marketplace.catalog.moderation import rules
from marketplace.catalog.moderation.banned_word_matcher import BannedWords
from marketplace.infra import outbox
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.notifications.operations import notify
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.moderation import ContentModerator
from marketplace.vendors import queries as vendor_queries

SCREENING_TOPIC = "product.screen"
# After this wait for a provider that does not answer, the listing goes to staff.
PROVIDER_MAX_WAIT = timedelta(minutes=10)
# After this wait for the screening itself, the listing goes to staff, so that no listing is stuck.
MAX_SCREENING_TIME = timedelta(minutes=30)
OVERDUE_BATCH_SIZE = 500

_PROVIDER_CATEGORY_NAME = re.compile(r"[a-z][a-z0-9 /_-]{0,39}")
_MAX_PROVIDER_CATEGORIES = 5

_MAX_PRICES_PER_CATEGORY = 100


@dataclass(frozen=True, slots=True)
class ScreenedListing:
    """A listing as read, with the violations of the rules.

    ``text`` is the only part that the provider sees.
    """

    product_id: UUID
    review_round: int
    submitted_at: datetime
    findings: tuple[str, ...]
    text: str


def submit_for_screening(session: Session, product: Product, *, now: datetime) -> None:
    """Submit a new or changed listing in review for screening.

    :param product: a new product, or a product with a row lock held by the caller
    """
    product.review_round = (product.review_round or 0) + 1
    product.held = False
    product.review_reasons = []
    product.status_reason = None
    product.moderated_at = now
    outbox.enqueue(
        session,
        queue=queues.AI_MODERATION,
        topic=SCREENING_TOPIC,
        payload={"productId": str(product.id)},
        due_at=now,
    )


_SELECT_LISTING_TO_SCREEN = Statement(
    text(
        """
        SELECT p.id, p.review_round, p.title, p.description, p.price_minor, p.condition, p.tags, p.category_id,
            p.needs_staff, p.moderated_at, (SELECT c.lineage FROM categories c WHERE c.id = p.category_id) AS lineage,
            (SELECT count(*) FROM product_images i WHERE i.product_id = p.id) AS image_count
        FROM products p WHERE p.id = :product_id AND p.status = 'in_review' AND NOT p.held
        """
    )
)


def read_and_screen(session: Session, *, product_id: UUID) -> ScreenedListing | None:
    """Read a listing that waits for screening, and check the listing against the rules.

    :return: None if the listing does not wait for screening or does not exist
    """
    row = _SELECT_LISTING_TO_SCREEN.first(session, product_id=product_id)
    if row is None:
        return None
    content = rules.ListingContent(
        title=row["title"],
        description=row["description"],
        price_minor=row["price_minor"],
        condition=row["condition"],
        tags=row["tags"],
        image_count=row["image_count"],
    )
    violations = rules.find_rule_violations(
        content,
        BannedWords(session.scalars(select(BannedTerm).order_by(BannedTerm.term))),
        _fetch_comparable_prices(session, product_id=product_id, lineage=row["lineage"]),
    )
    return ScreenedListing(
        product_id=row["id"],
        review_round=row["review_round"],
        submitted_at=row["moderated_at"],
        findings=(*([texts.PREVIOUSLY_REJECTED] if row["needs_staff"] else []), *violations),
        text="\n".join((content.title, content.description, *content.tags)),
    )


# Covers a category and its subcategories. A limit per category bounds the work.
_SELECT_PRICES_IN_SUBTREE = Statement(
    text(
        """
        SELECT newest.price_minor
        FROM categories c CROSS JOIN LATERAL (
            SELECT p.price_minor, p.published_at, p.id FROM products p
            WHERE p.status = 'published' AND p.category_id = c.id AND p.id <> :product_id
            ORDER BY p.published_at DESC, p.id DESC LIMIT :each
        ) newest
        WHERE c.lineage @> ARRAY[CAST(:category_id AS uuid)]
        ORDER BY newest.published_at DESC, newest.id DESC LIMIT :limit
        """
    )
)


def _fetch_comparable_prices(session: Session, *, product_id: UUID, lineage: Sequence[UUID]) -> list[int]:
    """Fetch prices of the category. With too few, widen the search to the parent's subtree, then to the root's."""
    prices = session.scalars(_select_newest_prices(lineage[-1], product_id)).all()
    for wider_category_id in dict.fromkeys((*lineage[-2:-1], lineage[0])):
        if len(prices) >= rules.MIN_COMPARABLE_PRICES:
            break
        prices = _SELECT_PRICES_IN_SUBTREE.scalars(
            session,
            category_id=wider_category_id,
            product_id=product_id,
            each=_MAX_PRICES_PER_CATEGORY,
            limit=rules.MAX_COMPARABLE_PRICES,
        )
    return list(prices)


def _select_newest_prices(category_id: UUID, product_id: UUID) -> Select[int]:
    """Select prices of other products in a category, limited to the newest ones."""
    is_comparable = (
        Product.status == "published",
        Product.category_id == category_id,
        Product.id != product_id,
    )
    newest = select(Product.price_minor).order_by(Product.published_at.desc(), Product.id.desc())
    return newest.where(*is_comparable).limit(rules.MAX_COMPARABLE_PRICES)


def check_with_provider(
    moderator: ContentModerator | None, listing: ScreenedListing | None, *, now: datetime
) -> tuple[str, ...]:
    """Send a listing without rule violations to the moderation provider.

    :param moderator: None if no provider is configured
    :param now: decides whether the listing has waited for the provider for ``PROVIDER_MAX_WAIT``
    :return: sentences for the vendor; empty if the listing passed or needs no check
    :raises ProviderUnavailableError: no usable answer yet; the caller must retry
    :raises ProviderRefusedError: the provider refused the call; retry after an operator has fixed the cause
    """
    if moderator is None or listing is None or listing.findings:
        return ()
    try:
        result = moderator.check(listing.text)
    except (ProviderUnavailableError, ProviderRefusedError):
        if now - listing.submitted_at < PROVIDER_MAX_WAIT:
            raise
        return (texts.NOT_CHECKED_IN_TIME,)
    if not result.flagged:
        return ()
    # Provider text reaches the vendor, so only short plain names pass, and only a few.
    names = [name for name in result.categories if _PROVIDER_CATEGORY_NAME.fullmatch(name)][
        :_MAX_PROVIDER_CATEGORIES
    ]
    if names:
        return (texts.FLAGGED_BY_PROVIDER_WITH_CATEGORIES.format(categories=", ".join(names)),)
    return (texts.FLAGGED_BY_PROVIDER,)


def publish_or_hold(
    session: Session, *, listing: ScreenedListing | None, provider_findings: Sequence[str] = (), now: datetime
) -> str | None:
    """Publish a screened listing, or hold the listing for staff.

    Repeated and late calls are safe: a listing in another state, or changed since it was read, stays as it is.

    :param provider_findings: sentences from ``check_with_provider``
    :return: the resulting status (``in_review`` when held), or None if the listing stays as it is
    """
    if listing is None:
        return None
    # FOR NO KEY UPDATE does not block carts and orders that reference the row.
    product = session.scalar(
        select(Product).where(Product.id == listing.product_id).with_for_update(key_share=True)
    )
    if (
        product is None
        or product.status != "in_review"
        or product.held
        or product.review_round != listing.review_round
    ):
        return None
    reasons = [*listing.findings, *provider_findings]
    if reasons:
        _hold_for_staff(session, product, reasons=reasons, now=now)
    else:
        _publish_product(session, product, now=now)
    return product.status


def hold_overdue_screenings(session: Session, *, now: datetime) -> int:
    """Hold listings for staff after waiting ``MAX_SCREENING_TIME`` for the screening.

    :return: number of held listings, at most ``OVERDUE_BATCH_SIZE``
    """
    overdue = session.scalars(
        select(Product)
        .where(Product.status == "in_review", ~Product.held, Product.moderated_at <= now - MAX_SCREENING_TIME)
        .order_by(Product.moderated_at, Product.id)
        .limit(OVERDUE_BATCH_SIZE)
        .with_for_update(key_share=True, skip_locked=True)
    ).all()
    for product in overdue:
        _hold_for_staff(session, product, reasons=[texts.NOT_CHECKED_IN_TIME], now=now)
    return len(overdue)


def hold_reported_listing(session: Session, *, product_id: UUID, now: datetime) -> bool:
    """Put a published listing back into review until staff decide, because several buyers reported the listing.

    A later change by the vendor also waits for staff.

    :return: false if the listing is not published
    """
    product = session.scalar(select(Product).where(Product.id == product_id).with_for_update(key_share=True))
    if product is None or not states.PRODUCT.allows(product.status, "report"):
        return False
    old_status = product.status
    product.status = states.PRODUCT.target(old_status, "report")
    product.review_round = (product.review_round or 0) + 1
    product.revision += 1
    product.needs_staff = True
    product.screened_at = None
    _hold_for_staff(session, product, reasons=[texts.REPORTED_BY_BUYERS], now=now)
    propagate_listing_change(session, product, old_status=old_status, now=now)
    return True


def mark_published(product: Product, *, now: datetime) -> None:
    """Mark the content of a listing as approved. The caller sets the status.

    :param product: the caller must hold the row lock
    :param now: time of the approval
    """
    product.held = product.needs_staff = False
    product.review_reasons = []
    product.status_reason = None
    product.screened_at = product.moderated_at = now
    # An edited listing keeps its first publication time, so that edits do not move old listings to the top.
    product.published_at = product.published_at or now
    product.updated_at = now


def _publish_product(session: Session, product: Product, *, now: datetime) -> None:
    old_status = product.status
    product.status = states.PRODUCT.target(product.status, "clear")
    mark_published(product, now=now)
    propagate_listing_change(session, product, old_status=old_status, now=now)
    notify_vendor(
        session,
        product,
        outcome="published",
        title=texts.PRODUCT_PUBLISHED_TITLE,
        body=texts.PRODUCT_PUBLISHED_BODY.format(listing=product.title),
        cause_suffix=f"round-{product.review_round}",
        now=now,
    )


def _hold_for_staff(session: Session, product: Product, *, reasons: Sequence[str], now: datetime) -> None:
    product.held = True
    product.review_reasons = list(reasons)
    product.status_reason = " ".join(reasons)
    product.moderated_at = product.updated_at = now
    notify_vendor(
        session,
        product,
        outcome="held",
        title=texts.PRODUCT_HELD_TITLE,
        body=texts.PRODUCT_HELD_BODY.format(listing=product.title, reasons=product.status_reason),
        cause_suffix=f"round-{product.review_round}",
        now=now,
    )


def notify_vendor(
    session: Session,
    product: Product,
    *,
    outcome: str,
    title: str,
    body: str,
    cause_suffix: str,
    now: datetime,
) -> None:
    """Notify a listing's vendor of a review result.

    :param outcome: suffix of the notification type, such as ``published``
    :param cause_suffix: distinguishes repeated notifications with the same outcome
    """
    store = vendor_queries.find_store(session, vendor_id=product.vendor_id)
    if store is None:
        raise LookupError("a product has no store")
    notify(
        session,
        user_id=store.user_id,
        type=f"product_{outcome}",
        title=title,
        body=body,
        link=f"/products/{product.id}",
        cause=f"product.{outcome}:{product.id}:{cause_suffix}",
        now=now,
    )
