"""Promotions of the demo: flash sales, banners, vibes and featured products, made by the domain's own operations."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from commands.seeding.categories import ROOT_NAMES
from commands.seeding.loading import fixed_ids, load_data
from commands.seeding.orders import get_caller
from commands.seeding.people import campus_id
from commands.seeding.products import DEMO_PRODUCTS, build_product
from marketplace.audit.operations import Act
from marketplace.catalog.promotions import banners, featured, flash_sales, vibes
from marketplace.catalog.promotions.flash_sales import Discount
from marketplace.catalog.promotions.models import Banner, FeaturedProduct, FlashSale, Vibe
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from sandbox.personas import MAIN_CAMPUS, persona_named

_FEATURED_COUNT = 8
_KINDS = {
    FlashSale: SeededKind.FLASH_SALE,
    Banner: SeededKind.BANNER,
    Vibe: SeededKind.VIBE,
    FeaturedProduct: SeededKind.FEATURED_PRODUCT,
}


@dataclass(frozen=True)
class FlashSaleData:
    """A flash sale. ``quantity`` limits the units at the sale price; None means no limit."""

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
    """A vibe, with the root categories of its products."""

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


def load_promotions(session: Session, *, now: datetime) -> int:
    """Create the promotions of the demo, unless the first vibe exists.

    :param now: start of the promotions; a flash sale may start days later
    :return: number of new promotions
    """
    if session.scalar(select(Vibe.id).where(Vibe.slug == _DATA.vibes[0].slug)) is not None:
        return 0
    act = Act("moderator", now, user_id=get_caller(session, persona_named("moderator").user_id).id)
    with fixed_ids(session, _KINDS):
        return _create_promotions(session, act)


def _create_promotions(session: Session, act: Act) -> int:
    """Create all promotions, and return the number."""
    now = act.now
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
            ends_at=now + timedelta(days=28),
            quantity=sale.quantity,
        )
    for position, item in enumerate(wares[5 :: len(wares) // _FEATURED_COUNT][:_FEATURED_COUNT]):
        featured.create_featured_product(
            session, act, product_id=item.id, position=position, starts_at=None, ends_at=None
        )
    for position, banner in enumerate(_DATA.banners):
        picture = seeded_id(SeededKind.IMAGE, position * 7 + 1)
        place = {"image_id": picture, "campus_id": None, "position": position}
        banners.BANNERS.create(session, act, asdict(banner) | place)
    for position, vibe in enumerate(_DATA.vibes):
        fitting = [item for item in wares if ROOT_NAMES[item.category.root] in vibe.roots]
        vibes.create_vibe(
            session,
            act,
            fields={
                "slug": vibe.slug,
                "title": vibe.title,
                "description": vibe.description,
                "image_id": seeded_id(SeededKind.IMAGE, fitting[0].pictures[0]),
                "campus_id": campus_id(MAIN_CAMPUS),
                "position": position,
            },
            product_ids=[item.id for item in fitting[:12]],
        )
    return len(_DATA.flash_sales) + _FEATURED_COUNT + len(_DATA.banners) + len(_DATA.vibes)
