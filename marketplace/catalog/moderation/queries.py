"""Staff views of listings in moderation."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.campus_filter import CAMPUS_PARAMETERS, campus_parameters, campus_sql
from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import found
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.paging import Page, PageRequest, page_of

# Queue filters as pairs of status and ``held``. Only listings in review can be held.
QUEUE_STATES = {
    "held": ("in_review", True),
    "screening": ("in_review", False),
    "rejected": ("rejected", False),
    "removed": ("removed", False),
}
DEFAULT_QUEUE_STATE = "held"

_SELECT_LISTING_SQL = f"""
    SELECT p.id, p.title, p.description, p.price_minor, '{CURRENCY}' AS currency, p.condition, p.tags, p.quantity,
        p.status, CASE WHEN p.status = 'in_review' THEN CASE WHEN p.held THEN 'held' ELSE 'screening' END END
            AS review_state,
        p.status_reason, p.review_reasons, p.moderated_at AS since, p.revision, p.published_at, p.created_at,
        p.updated_at,
        jsonb_build_object('id', k.id, 'name', k.name, 'slug', k.slug) AS campus,
        jsonb_build_object('id', c.id, 'name', c.name, 'slug', c.slug) AS category,
        jsonb_build_object('id', v.id, 'display_name', v.display_name, 'slug', v.slug, 'verified', v.verified)
            AS vendor,
        ARRAY(
            SELECT :media_base_url || '/' || i.key FROM product_images n JOIN images i ON i.id = n.image_id
            WHERE n.product_id = p.id ORDER BY n.position
        ) AS image_urls
    FROM {{products}} p
        JOIN vendor_profiles v ON v.id = p.vendor_id
        JOIN campuses k ON k.id = p.campus_id
        JOIN categories c ON c.id = p.category_id
"""
# The page is selected before the joins, so that the index order limits the rows that are read. The list of statuses
# equals the condition of the partial index, so that the planner can use the index.
_QUEUE_PAGE_SQL = """(
        SELECT * FROM products p
        WHERE p.status IN ('in_review', 'rejected', 'removed') AND p.status = :status AND p.held = :held
            AND (CAST(:last_at AS timestamptz) IS NULL
                OR (p.moderated_at, p.id) > (CAST(:last_at AS timestamptz), CAST(:last_id AS uuid)))
            AND {place}
        ORDER BY p.moderated_at, p.id LIMIT :limit
    )"""


_SELECT_QUEUE = {
    by: Statement(
        text(
            _SELECT_LISTING_SQL.format(products=_QUEUE_PAGE_SQL.format(place=campus_sql("p.campus_id", by)))
            + " ORDER BY p.moderated_at, p.id"
        )
    )
    for by in CAMPUS_PARAMETERS
}


def list_moderation_queue(
    session: Session, *, state: str, campus: str | None, page: PageRequest, media_base_url: str
) -> Page:
    """List listings in moderation, longest waiting first.

    :param state: a key of ``QUEUE_STATES``
    :param campus: id or slug, or None for all campuses
    :param page: the cursor position holds the last row's time and id
    """
    status, held = QUEUE_STATES[state]
    campus_values = campus_parameters(campus)
    last_at, last_id = page.after("time", "id")
    rows = _SELECT_QUEUE[next(iter(campus_values), None)].all(
        session,
        **campus_values,
        status=status,
        held=held,
        last_at=last_at,
        last_id=last_id,
        limit=page.limit + 1,
        media_base_url=media_base_url,
    )
    return page_of(rows, request=page, position_of=lambda row: [iso(row["since"]), str(row["id"])])


_SELECT_LISTING = Statement(
    text(f"{_SELECT_LISTING_SQL.format(products='products')} WHERE p.id = :product_id")
)


def fetch_listing_for_staff(session: Session, *, product_id: UUID, media_base_url: str) -> Row:
    """Fetch the staff view of a listing in any state.

    :raises NotFoundError: the listing does not exist
    """
    return found(
        _SELECT_LISTING.first(session, product_id=product_id, media_base_url=media_base_url),
        "Product not found.",
    )
