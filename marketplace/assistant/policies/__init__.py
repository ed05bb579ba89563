"""The policies of the marketplace in a few sentences each, for answers of the assistant."""

import re
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

# Words of a topic that show the policy. The order is the order of answers.
_WORDS = {
    "disputes": r"disput|damaged|wrong item|not received|never came|fake|scam|complain|problem",
    "refunds": r"refund|cancel|return|money back",
    "delivery": r"deliver|\bhub|pick ?up|\bpins?\b|ship|collect",
    "payouts": r"payout|withdraw|cash ?out|vendor|sell",
    "accounts": r"account|password|sign ?in|log ?in|delet|suspend|privacy",
    "escrow": r"escrow|\bpay|money|safe|\bhold|trust",
}
_MAX_FOUND = 2


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


def find_policies(topic: str) -> list[Policy]:
    """Return the policies about a topic, at most two. An unknown topic gets the policies about escrow and disputes."""
    found = [name for name, words in _WORDS.items() if re.search(words, topic, re.IGNORECASE)]
    return [read_policy(name) for name in (found or ["escrow", "disputes"])[:_MAX_FOUND]]
