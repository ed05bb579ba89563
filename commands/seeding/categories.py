"""The category tree's rows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from commands.seeding.bulk_copy import copy_rows
from commands.seeding.ids import SeededKind, seeded_id
from commands.seeding.offers import Branch, Leaf
from commands.seeding.wares import CATEGORY_TREE


@dataclass(frozen=True)
class SeededCategory:
    """A row: ``lineage`` holds the ids from the root to itself; ``root`` counts the roots from 0."""

    id: UUID
    parent_id: UUID | None
    name: str
    slug: str
    position: int
    lineage: tuple[UUID, ...]
    root: int
    leaf: Leaf | None


def _walk(
    nodes: Sequence[Branch | Leaf], parents: tuple[UUID, ...], root: int | None
) -> Iterator[SeededCategory]:
    for position, node in enumerate(nodes):
        slug = re.sub(r"[^a-z0-9]+", "-", node.name.lower()).strip("-")
        # Numbered by name: a category that is added later changes no other's id.
        own = seeded_id(SeededKind.CATEGORY, int.from_bytes(slug.encode()) % 4_294_967_291)
        lineage = (*parents, own)
        top = position if root is None else root
        yield SeededCategory(
            own,
            parents[-1] if parents else None,
            node.name,
            slug,
            position,
            lineage,
            top,
            node if isinstance(node, Leaf) else None,
        )
        if isinstance(node, Branch):
            yield from _walk(node.children, lineage, top)


CATEGORIES: tuple[SeededCategory, ...] = tuple(_walk(CATEGORY_TREE, (), None))
# A leaf category with what is offered in it.
LEAF_CATEGORIES: tuple[tuple[SeededCategory, Leaf], ...] = tuple(
    (category, category.leaf) for category in CATEGORIES if category.leaf is not None
)


def load_categories(session: Session) -> None:
    """Add the category tree."""
    copy_rows(
        session,
        "categories",
        ("id", "parent_id", "name", "slug", "position", "lineage"),
        [(row.id, row.parent_id, row.name, row.slug, row.position, row.lineage) for row in CATEGORIES],
    )
