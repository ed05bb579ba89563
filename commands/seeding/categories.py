"""The category tree, with the goods that students sell in each leaf category."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from commands.seeding.loading import copy_rows, load_data
from marketplace.kernel.demo_ids import category_id


@dataclass(frozen=True)
class Good:
    """A kind of article, with its usual price."""

    name: str
    naira: int


@dataclass(frozen=True)
class CategoryNode:
    """A category with child categories, or a leaf category with goods. ``variants`` distinguish offers of a good."""

    name: str
    children: tuple["CategoryNode", ...] = ()
    goods: tuple[Good, ...] = ()
    variants: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ("new", "like_new", "good", "good", "fair")

    def __post_init__(self) -> None:
        """Check that a category has either children or goods.

        :raises ValueError: the category has both or neither
        """
        if bool(self.children) == bool(self.goods and self.variants):
            raise ValueError(f"category {self.name!r} needs either children or goods with variants")


@dataclass(frozen=True)
class SeededCategory:
    """A row of the table of categories.

    ``lineage`` holds the ids from the root to the category itself. ``root`` is the position of the root, from 0.
    """

    id: UUID
    parent_id: UUID | None
    slug: str
    position: int
    lineage: tuple[UUID, ...]
    root: int
    node: CategoryNode


def _walk(
    nodes: Sequence[CategoryNode], parents: tuple[UUID, ...], root: int | None
) -> Iterator[SeededCategory]:
    for position, node in enumerate(nodes):
        slug = re.sub(r"[^a-z0-9]+", "-", node.name.lower()).strip("-")
        own = category_id(slug)
        lineage = (*parents, own)
        top = position if root is None else root
        yield SeededCategory(own, parents[-1] if parents else None, slug, position, lineage, top, node)
        yield from _walk(node.children, lineage, top)


_ROOTS = load_data("categories", tuple[CategoryNode, ...])
ROOT_NAMES: tuple[str, ...] = tuple(node.name for node in _ROOTS)
CATEGORIES: tuple[SeededCategory, ...] = tuple(_walk(_ROOTS, (), None))
LEAF_CATEGORIES: tuple[SeededCategory, ...] = tuple(
    category for category in CATEGORIES if category.node.goods
)


def load_categories(session: Session) -> None:
    """Add the category tree."""
    copy_rows(
        session,
        "categories",
        ("id", "parent_id", "name", "slug", "position", "lineage"),
        [(row.id, row.parent_id, row.node.name, row.slug, row.position, row.lineage) for row in CATEGORIES],
    )
