"""Banners: images with a title on the pages of a campus or of all campuses."""

from marketplace.catalog import cache_tags
from marketplace.catalog.promotions.common import PromotionType
from marketplace.catalog.promotions.listing import IMAGE_URL_SQL, LIFETIME_COLUMNS_SQL, PromotionTable
from marketplace.catalog.promotions.models import Banner

PLACEMENTS = ("hero", "card")

BANNERS = PromotionType(
    Banner,
    name="banner",
    audited_columns=(
        *("title", "subtitle", "image_id", "image_url", "link", "placement", "campus_id", "position"),
        *("starts_at", "ends_at", "ended_at"),
    ),
    tag=cache_tags.BANNERS,
)
BANNER_TABLE = PromotionTable(
    f"""
    SELECT t.id, t.title, t.subtitle, {IMAGE_URL_SQL}, t.image_id, t.link, t.placement, t.campus_id, t.position,
        {LIFETIME_COLUMNS_SQL}
    FROM banners t
    """,
    name="banner",
)
HAS_PLACEMENT_SQL = "CAST(:placement AS text) IS NULL OR t.placement = :placement"
