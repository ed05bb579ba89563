"""What the demo's staff promote: flash sales, banners, vibes and featured products, made by the domain itself."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from commands.seeding.categories import ROOT_NAMES
from commands.seeding.data_files import load_data
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
_PRODUCTS_PER_VIBE = 12
_FEATURED_COUNT = 8


@dataclass(frozen=True)
class FlashSaleData:
    """A flash sale; ``quantity`` is the pieces at its price, none for all there are."""

    percent_off: int
    quantity: int | None
    starts_in_days: int


@dataclass(frozen=True)
class BannerData:
    """A banner."""

    title: str
    subtitle: str
    placement: str
    link: str


@dataclass(frozen=True)
class VibeData:
    """A vibe, and the roots of the category tree that it is filled from."""

    slug: str
    title: str
    description: str
    roots: tuple[str, ...]


@dataclass(frozen=True)
class PromotionsData:
    """The content of ``promotions.json``."""

    flash_sales: tuple[FlashSaleData, ...]
    banners: tuple[BannerData, ...]
    vibes: tuple[VibeData, ...]


_DATA = load_data("promotions", PromotionsData)

_SELECT_SEEDED_VIBE = Statement(text("SELECT 1 FROM vibes WHERE slug = :slug LIMIT 1"))


def load_promotions(session: Session, *, now: datetime) -> int:
    """Make the promotions of the demo, unless they were made before.

    :param now: the time that their windows begin, or are counted from
    :return: how many were made
    """
    if _SELECT_SEEDED_VIBE.first(session, slug=_DATA.vibes[0].slug) is not None:
        return 0
    act = _moderator_act(session, now)
    wares = [
        item for item in map(build_product, range(1, DEMO_PRODUCTS + 1)) if item.store.campus == MAIN_CAMPUS
    ]
    for sale, item in zip(_DATA.flash_sales, wares[3::11], strict=False):
        flash_sales.create_flash_sale(
            session,
            act,
            product_id=item.id,
            discount=Discount(percent=sale.percent_off),
            starts_at=now + timedelta(days=sale.starts_in_days),
            ends_at=now + _PROMOTION_LENGTH,
            quantity=sale.quantity,
        )
    for position, item in enumerate(wares[5 :: len(wares) // _FEATURED_COUNT][:_FEATURED_COUNT]):
        featured.create_featured_product(
            session, act, product_id=item.id, position=position, starts_at=None, ends_at=None
        )
    _load_banners(session, act)
    _load_vibes(session, act, wares)
    return len(_DATA.flash_sales) + _FEATURED_COUNT + len(_DATA.banners) + len(_DATA.vibes)


def _moderator_act(session: Session, now: datetime) -> Act:
    moderator = find_caller(session, user_id=persona_named("moderator").user_id, aal="aal1")
    if moderator is None:
        raise LookupError("the moderator is not seeded")
    return Act("moderator", now, user_id=moderator.id)


def _load_banners(session: Session, act: Act) -> None:
    for position, banner in enumerate(_DATA.banners):
        banners.BANNERS.create(
            session,
            act,
            asdict(banner)
            | {
                "image_id": _picture_id(position * 7 + 1),
                "campus_id": None,
                "position": position,
            },
        )


def _load_vibes(session: Session, act: Act, wares: list[SeededProduct]) -> None:
    for position, vibe in enumerate(_DATA.vibes):
        fitting = [item for item in wares if ROOT_NAMES[item.category.root] in vibe.roots][
            :_PRODUCTS_PER_VIBE
        ]
        vibes.create_vibe(
            session,
            act,
            fields={
                "slug": vibe.slug,
                "title": vibe.title,
                "description": vibe.description,
                "image_id": _picture_id(fitting[0].pictures[0]),
                "campus_id": campus_id(MAIN_CAMPUS),
                "position": position,
            },
            product_ids=[item.id for item in fitting],
        )


def _picture_id(number: int) -> UUID:
    return seeded_id(SeededKind.IMAGE, number)
