"""The review of listings by machine: handed in, read, held against rules and provider, published or held.

It comes in phases, since the provider is asked while no transaction is open: ``read_and_screen`` takes a listing down
as it is, ``check_with_provider`` asks the provider about that, ``publish_or_hold`` publishes or holds it if it
still is what was read. What was changed meanwhile has an event of its own, which decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Select, select, text
from sqlalchemy.orm import Session

from marketplace.catalog import states
from marketplace.catalog.listing_changes import drop_stale_listing_caches
from marketplace.catalog.models import BannedTerm, Product
from marketplace.catalog.moderation import rules
from marketplace.catalog.moderation.banned_word_matcher import BannedWords
from marketplace.infra import outbox
from marketplace.infra.db import Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.notifications.operations import notify
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.moderation import ContentModerator
from marketplace.vendors import queries as vendor_queries

SCREENING_TOPIC = "product.screen"
# So long a listing waits for a provider that does not answer; then staff look at it instead.
PROVIDER_MAX_WAIT = timedelta(minutes=10)
# So long it waits for the screening as such: whatever keeps it from coming, nobody waits for ever.
MAX_SCREENING_TIME = timedelta(minutes=30)
OVERDUE_BATCH_SIZE = 500

PREVIOUSLY_REJECTED = "Staff turned down an earlier version of this listing, so they look at this one too."
NOT_CHECKED_IN_TIME = (
    "The listing could not be checked automatically in time. Staff look at it; there is nothing to do."
)
_PROVIDER_CATEGORY_NAME = re.compile(r"[a-z][a-z0-9 /_-]{0,39}")
_MAX_PROVIDER_CATEGORIES = 5

_MAX_PRICES_PER_CATEGORY = 100


@dataclass(frozen=True, slots=True)
class ScreenedListing:
    """A listing as it was read, and what the rules find.

    ``text`` is all of it that a provider gets to see.
    """

    product_id: UUID
    review_round: int
    submitted_at: datetime
    findings: tuple[str, ...]
    text: str


def submit_for_screening(session: Session, product: Product, *, now: datetime) -> None:
    """Hand a listing that came into review, or changed there, to the screening.

    :param product: its row is locked, or new
    :param now: the time of the request
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
    """Take down a listing that waits for its screening, and hold it against the rules.

    :return: what was read, or none if the listing does not wait, or is gone
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
        findings=(*([PREVIOUSLY_REJECTED] if row["needs_staff"] else []), *violations),
        text="\n".join((content.title, content.description, *content.tags)),
    )


# Of all categories below one, and of it: some of each, so that the work is bounded by their number.
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
    """Read what else costs in the category; where too few know, what is below its parent, or else its root."""
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
    """Select the other products' prices in a category: the newest, which are current and bound the work."""
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
    """Ask the provider about a listing in which the rules find nothing.

    :param moderator: the provider, or none where there is none
    :param listing: what was read, if anything
    :param now: the time, which tells whether the listing has waited for the provider long enough
    :return: sentences for the vendor; none if there is nothing to say, or nothing to ask
    :raises ProviderUnavailableError: no usable answer in time: ask again later
    :raises ProviderRefusedError: the provider refused: ask again later, when whoever runs this has seen to it
    """
    if moderator is None or listing is None or listing.findings:
        return ()
    try:
        result = moderator.check(listing.text)
    except (ProviderUnavailableError, ProviderRefusedError):
        if now - listing.submitted_at < PROVIDER_MAX_WAIT:
            raise
        return (NOT_CHECKED_IN_TIME,)
    if not result.flagged:
        return ()
    # What the provider names reaches the vendor: names only, and not any number of them.
    names = [name for name in result.categories if _PROVIDER_CATEGORY_NAME.fullmatch(name)][
        :_MAX_PROVIDER_CATEGORIES
    ]
    suffix = f" ({', '.join(names)})" if names else ""
    return (
        f"The automatic check took the words of the listing amiss{suffix}. Say it in other words, or wait for staff.",
    )


def publish_or_hold(
    session: Session, *, listing: ScreenedListing | None, provider_findings: Sequence[str] = (), now: datetime
) -> str | None:
    """Publish a listing that was screened, or hold it for staff.

    It is safe to come twice or late: a listing in any other state, or changed since it was read, stays as it is.

    :param listing: what was read, if anything
    :param provider_findings: what the provider found beside the rules
    :param now: the time of the task
    :return: the state that it led to (``in_review`` when held), or none if there was nothing to do
    """
    if listing is None:
        return None
    # Not FOR UPDATE: carts and orders that refer to the row need not wait for this.
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
    """Hold listings for staff whose screening has not come for too long.

    :param now: the time of the task
    :return: how many, at most ``OVERDUE_BATCH_SIZE``
    """
    overdue = session.scalars(
        select(Product)
        .where(Product.status == "in_review", ~Product.held, Product.moderated_at <= now - MAX_SCREENING_TIME)
        .order_by(Product.moderated_at, Product.id)
        .limit(OVERDUE_BATCH_SIZE)
        .with_for_update(key_share=True, skip_locked=True)
    ).all()
    for product in overdue:
        _hold_for_staff(session, product, reasons=[NOT_CHECKED_IN_TIME], now=now)
    return len(overdue)


def mark_published(product: Product, *, now: datetime) -> None:
    """Mark a listing's content as found fit; its status is the caller's to set.

    :param product: its row is locked
    :param now: when it was found fit
    """
    product.held = product.needs_staff = False
    product.review_reasons = []
    product.status_reason = None
    product.screened_at = product.moderated_at = now
    # A listing that was changed keeps its place: editing is no way to the top of what is new.
    product.published_at = product.published_at or now
    product.updated_at = now


def _publish_product(session: Session, product: Product, *, now: datetime) -> None:
    old_status = product.status
    product.status = states.PRODUCT.target(product.status, "clear")
    mark_published(product, now=now)
    drop_stale_listing_caches(session, product, old_status=old_status)
    notify_vendor(
        session,
        product,
        outcome="published",
        title="Your listing is live",
        body=f"{quoted_title(product)} can be seen and bought now.",
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
        title="Your listing waits for review",
        body=f"{quoted_title(product)} waits for our staff. {product.status_reason}",
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
    """Notify a listing's vendor of what became of it.

    :param outcome: such as ``published``; the notification's type is made of it
    :param cause_suffix: tells this time from others of the same outcome
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


def quoted_title(product: Product) -> str:
    """Name a listing in a sentence."""
    return f"\u201c{product.title}\u201d"
