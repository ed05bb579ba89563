"""The policies of the marketplace in a few sentences each, for answers of the assistant."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

# The policies that matter for a ticket, by its category.
_BY_CATEGORY = {
    "order": ("delivery", "refunds"),
    "delivery": ("delivery", "disputes"),
    "payment": ("escrow", "refunds"),
    "vendor": ("payouts", "escrow"),
    "account": ("accounts",),
    "other": ("escrow", "disputes"),
}


@dataclass(frozen=True)
class Policy:
    """A policy with title and text."""

    id: str
    title: str
    text: str


@cache
def read_policy(policy_id: str) -> Policy:
    """Read a policy from its file, whose first line is the title."""
    heading, _, text = (files(__package__) / f"{policy_id}.md").read_text("utf-8").partition("\n")
    return Policy(policy_id, heading.removeprefix("# "), text.strip())


def policies_for(category: str) -> list[Policy]:
    """Return the policies that matter for a ticket of a category."""
    return [read_policy(policy_id) for policy_id in _BY_CATEGORY[category]]
