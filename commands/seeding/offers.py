"""How a category tree is written down, and what is offered in its leaves."""

from dataclasses import dataclass, field

NEW_ONLY = ("new",)
_ANY_CONDITION = ("new", "like_new", "good", "good", "fair")


@dataclass(frozen=True)
class Leaf:
    """A category in which things are offered.

    ``goods`` are names with their usual price in naira; ``variants`` tell one offer from the next.
    """

    name: str
    goods: tuple[tuple[str, int], ...]
    variants: tuple[str, ...]
    tags: tuple[str, ...]
    conditions: tuple[str, ...] = _ANY_CONDITION


@dataclass(frozen=True)
class Branch:
    """A category of categories."""

    name: str
    children: tuple["Branch | Leaf", ...] = field(default=())
