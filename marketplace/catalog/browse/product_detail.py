"""Product details with related products, and the category tree."""

from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import (
    ColumnElement,
    Float,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ClauseElement

from marketplace.catalog.browse.listing import CARD_COLUMNS, build_card
from marketplace.catalog.models import Favorite, Product
from marketplace.catalog.sale_price import CURRENT_SALE_SQL, sale_view
from marketplace.catalog.statistics import counters
from marketplace.identity.permissions import MANAGE_PRODUCTS
from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import NotFoundError, found
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.ratings import average_rating
from marketplace.media.images import image_view
from marketplace.vendors.figures import average_response_minutes
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN, STORE_IS_OPEN_SQL

MAX_RELATED_PRODUCTS = 8
# Number of products on either side in price that are compared by title.
_MAX_PRICE_NEIGHBOURS = 8


def _price_neighbours_clause(*, above: bool) -> Any:
    """Select the cards closest in price on either side of a product, using the index of category and price."""
    price: ColumnElement[int] = Product.price_minor.expression
    near = price >= bindparam("price_minor") if above else price < bindparam("price_minor")
    return (
        select(*CARD_COLUMNS)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(
            Product.status == literal_column("'published'"),
            Product.category_id == bindparam("category_id"),
            Product.campus_id == bindparam("campus_id"),
            Product.id != bindparam("product_id"),
            near,
            STORE_IS_OPEN,
        )
        .order_by(*((price, Product.id) if above else (price.desc(), Product.id.desc())))
        .limit(_MAX_PRICE_NEIGHBOURS)
    )


def _related_clause() -> ClauseElement:
    """Select the most similar products. Title and price have equal weight, each from 0 to 1."""
    sides = union_all(
        _price_neighbours_clause(above=True).subquery().select(),
        _price_neighbours_clause(above=False).subquery().select(),
    ).subquery()
    price = cast(bindparam("price_minor"), Product.price_minor.type)
    unlike = func.abs(sides.c.price_minor - price) / cast(
        func.greatest(sides.c.price_minor, price), Float
    ) - func.similarity(sides.c.title, bindparam("title", type_=Text))
    return select(sides).order_by(unlike, sides.c.id).limit(MAX_RELATED_PRODUCTS)


_SELECT_RELATED = Prepared(_related_clause())


# Columns for the owner and for staff with the permission to manage products.
_PRIVATE_COLUMNS = (
    *("status", "status_reason", "review_state", "review_reasons"),
    *("quantity", "reserved", "revision", "created_at"),
)
# Ids are read as text for the same reason as in ``listing.CARD_COLUMNS``.
_SELECT_DETAIL = Prepared(
    text(
        f"""
        SELECT CAST(p.id AS text) AS id, p.title, p.description, p.price_minor, {CURRENT_SALE_SQL} AS sale,
            p.condition, p.quantity, p.reserved, p.available, p.tags, p.cover_key, p.exclusive, p.status,
            p.status_reason, p.review_reasons, CASE
                WHEN p.status = 'in_review' AND p.held THEN 'held' WHEN p.status = 'in_review' THEN 'screening'
            END AS review_state, p.rating_sum, p.rating_count, p.revision,
            p.published_at, p.created_at,
            p.updated_at, CAST(p.campus_id AS text) AS campus_id, CAST(p.category_id AS text) AS category_id,
            CAST(p.vendor_id AS text) AS vendor_id,
            k.name AS campus_name, k.slug AS campus_slug, c.name AS category_name, c.slug AS category_slug,
            CAST(v.user_id AS text) AS user_id, v.display_name, v.slug AS vendor_slug, v.verified,
            v.status AS vendor_status, v.on_vacation, v.vacation_until, v.vacation_note, v.completed_orders,
            v.response_seconds_sum, v.response_count, v.rating_sum AS vendor_rating_sum,
            v.rating_count AS vendor_rating_count, v.created_at AS vendor_since,
            EXISTS (SELECT FROM favorites f WHERE f.product_id = p.id AND f.user_id = :caller_id) AS is_favorite,
            ARRAY(
                SELECT ARRAY[CAST(i.id AS text), i.key, CAST(i.renditions AS text)]
                FROM product_images n JOIN images i ON i.id = n.image_id
                WHERE n.product_id = p.id ORDER BY n.position
            ) AS images
        FROM products p
            JOIN vendor_profiles v ON v.id = p.vendor_id
            JOIN campuses k ON k.id = p.campus_id
            JOIN categories c ON c.id = p.category_id
        WHERE p.id = :product_id
        """
    )
)


def fetch_product_detail(
    session: Session, *, product_id: UUID, caller: Caller | None, now: datetime, media_base_url: str
) -> dict[str, Any]:
    """Fetch a product with its vendor's reputation and related products in two queries.

    An authenticated caller also sees whether the product is a favourite. Further queries read the counters and the
    number of favourites for the private view. Staff with the permission to manage products see the product
    in any state, with private fields. So does the owner, except for a deleted product. Everyone else sees a published
    product of an active store. Products of a store on vacation are visible but not orderable.

    :param caller: None for an anonymous request
    :raises NotFoundError: the product does not exist or is not visible to the caller
    """
    row = found(
        _SELECT_DETAIL.first(
            session, product_id=product_id, caller_id=caller.id if caller else None, now=now
        ),
        "Product not found.",
    )
    private = caller is not None and (
        caller.has_permission(MANAGE_PRODUCTS)
        or (str(caller.id) == row["user_id"] and row["status"] != "deleted")
    )
    public = row["status"] == "published" and row["vendor_status"] == "active"
    if not (public or private):
        raise NotFoundError("Product not found.")
    view = _public_view(row, now=now, media_base_url=media_base_url, orderable=public)
    if caller is not None:
        view["is_favorite"] = row["is_favorite"]
    if private:
        view |= {name: row[name] for name in _PRIVATE_COLUMNS}
        view |= counters.fetch_totals(session, product_id=product_id)
        view["favorites"] = session.scalar(
            select(func.count()).select_from(Favorite).where(Favorite.product_id == product_id)
        )
    view["related_items"] = [
        build_card(related)
        for related in _SELECT_RELATED.tuples(
            session,
            product_id=row["id"],
            category_id=row["category_id"],
            campus_id=row["campus_id"],
            price_minor=row["price_minor"],
            title=row["title"],
            now=now,
            media_base_url=media_base_url,
        )
    ]
    return view


def _public_view(
    row: dict[str, Any], *, now: datetime, media_base_url: str, orderable: bool
) -> dict[str, Any]:
    until = row["vacation_until"]
    away = row["on_vacation"] and (until is None or until > now)
    return {
        "id": row["id"],
        "title": row["title"],
        "description": row["description"],
        "price_minor": row["price_minor"],
        "currency": CURRENCY,
        "flash_sale": sale_view(row["sale"], price_minor=row["price_minor"]),
        "condition": row["condition"],
        "image_url": f"{media_base_url}/{row['cover_key']}" if row["cover_key"] else None,
        "images": [
            image_view(image_id, key, orjson.loads(renditions), media_base_url=media_base_url)
            for image_id, key, renditions in row["images"]
        ],
        "tags": row["tags"],
        "campus_id": row["campus_id"],
        "campus": {"id": row["campus_id"], "name": row["campus_name"], "slug": row["campus_slug"]},
        "category_id": row["category_id"],
        "category": {"id": row["category_id"], "name": row["category_name"], "slug": row["category_slug"]},
        "vendor": {
            "id": row["vendor_id"],
            "display_name": row["display_name"],
            "slug": row["vendor_slug"],
            "verified": row["verified"],
            "rating": average_rating(row["vendor_rating_sum"], row["vendor_rating_count"]),
            "rating_count": row["vendor_rating_count"],
            "completed_orders": row["completed_orders"],
            "response_minutes": average_response_minutes(row["response_seconds_sum"], row["response_count"]),
            "member_since": row["vendor_since"],
            "vacation": {"until": until, "note": row["vacation_note"]} if away else None,
        },
        "available": row["available"],
        "in_stock": row["available"] > 0,
        "orderable": orderable and not away and row["available"] > 0,
        "rating_average": average_rating(row["rating_sum"], row["rating_count"]),
        "rating_count": row["rating_count"],
        "published_at": row["published_at"],
        "exclusive": row["exclusive"] and row["verified"],
        "updated_at": row["updated_at"],
    }


_SELECT_CATEGORIES = Statement(
    text(
        f"""
        SELECT CAST(c.id AS text) AS id, CAST(c.parent_id AS text) AS parent_id, c.name, c.slug,
            coalesce(n.listings, 0) AS listings
        FROM categories c
            LEFT JOIN (
                SELECT p.category_id, count(*) AS listings
                FROM products p JOIN vendor_profiles v ON v.id = p.vendor_id
                WHERE p.status = 'published' AND {STORE_IS_OPEN_SQL}
                GROUP BY p.category_id
            ) n ON n.category_id = c.id
        ORDER BY c.position, c.name, c.id
        """
    )
)


def fetch_category_tree(session: Session, *, now: datetime) -> list[dict[str, Any]]:
    """Fetch the category tree, each category with the number of listings in its subtree.

    Products of stores on vacation are not counted.

    :return: the root categories; subcategories are in ``children``
    """
    rows = _SELECT_CATEGORIES.all(session, now=now)
    nodes: dict[str | None, dict[str, Any]] = {
        row["id"]: {
            "id": row["id"],
            "name": row["name"],
            "slug": row["slug"],
            "listing_count": row["listings"],
            "children": [],
        }
        for row in rows
    }
    roots: list[dict[str, Any]] = []
    for row in rows:
        siblings = roots if row["parent_id"] is None else nodes[row["parent_id"]]["children"]
        siblings.append(nodes[row["id"]])
    for root in roots:
        _sum_listing_counts(root)
    return roots


def _sum_listing_counts(node: dict[str, Any]) -> int:
    """Add the counts of all subcategories to a category. Recursion is bounded by the depth of the tree."""
    node["listing_count"] += sum(_sum_listing_counts(child) for child in node["children"])
    total: int = node["listing_count"]
    return total
