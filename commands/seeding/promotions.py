"""What the demo's staff promote: flash sales, banners, vibes and featured products, made by the domain itself."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from commands.seeding.ids import SeededKind, seeded_id
from commands.seeding.places import campus_id
from commands.seeding.products import DEMO_PRODUCTS, SeededProduct, build_product
from marketplace.audit.operations import Act
from marketplace.catalog.promotions import banners, featured, flash_sales, vibes
from marketplace.catalog.promotions.flash_sales import Discount
from marketplace.identity.queries import find_caller
from marketplace.infra.db import Statement
from sandbox.personas import MAIN_CAMPUS, persona_named

_PROMOTION_LENGTH = timedelta(days=28)
_UPCOMING_DELAY = timedelta(days=2)
# Percent off, pieces at that price (none for all there are), and when it begins.
_SALES: tuple[tuple[int, int | None, timedelta], ...] = (
    (30, None, timedelta()),
    (50, 5, timedelta()),
    (15, None, timedelta()),
    (40, 20, _UPCOMING_DELAY),
)
_BANNERS = (
    (
        "Resumption week",
        "Mattresses, buckets and lamps, delivered to your hall",
        "hero",
        "/vibes/move-in-day",
    ),
    ("Exams are near", "Past questions and calculators", "hero", "/vibes/exam-season"),
    ("Pay safely", "Your money is held until you give the PIN", "card", "/help/escrow"),
)
# Slug, title, description, and the roots of the category tree that it is filled from.
_VIBES = (
    ("exam-season", "Exam season", "Everything for the reading room.", frozenset({0})),
    ("move-in-day", "Move-in day", "What a room needs on its first day.", frozenset({2})),
)
_PRODUCTS_PER_VIBE = 12
_FEATURED_COUNT = 8

_SELECT_SEEDED_VIBE = Statement(text("SELECT 1 FROM vibes WHERE slug = :slug LIMIT 1"))


def load_promotions(session: Session, *, now: datetime) -> int:
    """Make the promotions of the demo, unless they were made before.

    :param now: the time that their windows begin, or are counted from
    :return: how many were made
    """
    if _SELECT_SEEDED_VIBE.first(session, slug=_VIBES[0][0]) is not None:
        return 0
    act = _moderator_act(session, now)
    wares = [
        item for item in map(build_product, range(1, DEMO_PRODUCTS + 1)) if item.store.campus == MAIN_CAMPUS
    ]
    for (percent, pieces, delay), item in zip(_SALES, wares[3::11], strict=False):
        flash_sales.create_flash_sale(
            session,
            act,
            product_id=item.id,
            discount=Discount(percent=percent),
            starts_at=now + delay,
            ends_at=now + _PROMOTION_LENGTH,
            quantity=pieces,
        )
    for position, item in enumerate(wares[5 :: len(wares) // _FEATURED_COUNT][:_FEATURED_COUNT]):
        featured.create_featured_product(
            session, act, product_id=item.id, position=position, starts_at=None, ends_at=None
        )
    _load_banners(session, act)
    _load_vibes(session, act, wares)
    return len(_SALES) + _FEATURED_COUNT + len(_BANNERS) + len(_VIBES)


def _moderator_act(session: Session, now: datetime) -> Act:
    moderator = find_caller(session, user_id=persona_named("moderator").user_id, aal="aal1")
    if moderator is None:
        raise LookupError("the moderator is not seeded")
    return Act("moderator", now, user_id=moderator.id)


def _load_banners(session: Session, act: Act) -> None:
    for position, (title, subtitle, placement, link) in enumerate(_BANNERS):
        banners.create_banner(
            session,
            act,
            fields={
                "title": title,
                "subtitle": subtitle,
                "placement": placement,
                "link": link,
                "image_id": _picture_id(position * 7 + 1),
                "campus_id": None,
                "position": position,
            },
        )


def _load_vibes(session: Session, act: Act, wares: list[SeededProduct]) -> None:
    for position, (slug, title, description, roots) in enumerate(_VIBES):
        fitting = [item for item in wares if item.category.root in roots][:_PRODUCTS_PER_VIBE]
        vibes.create_vibe(
            session,
            act,
            fields={
                "slug": slug,
                "title": title,
                "description": description,
                "image_id": _picture_id(fitting[0].pictures[0]),
                "campus_id": campus_id(MAIN_CAMPUS),
                "position": position,
            },
            product_ids=[item.id for item in fitting],
        )


def _picture_id(number: int) -> UUID:
    return seeded_id(SeededKind.IMAGE, number)
