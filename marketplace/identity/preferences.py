"""Notification preferences: channels on or off for each kind of message.

Messages about security and the delivery PIN have no preference, because users must receive them.
"""

from collections.abc import Mapping

CHANNELS = ("push", "message", "sms", "email")

Preferences = dict[str, dict[str, bool]]

# The kinds of messages, with the channels that are on unless the user decides otherwise. The feed shows all kinds.
DEFAULTS: dict[str, frozenset[str]] = {
    "orders": frozenset({"push", "message", "email"}),
    "payments": frozenset({"push", "email"}),
    "payouts": frozenset({"push", "email"}),
    "chat": frozenset({"push"}),
    "support": frozenset({"push", "email"}),
    "reviews": frozenset({"push"}),
    "favorites": frozenset({"push"}),
    "marketing": frozenset(),
}
KINDS = tuple(DEFAULTS)


def resolve_preferences(stored: Mapping[str, Mapping[str, bool]]) -> Preferences:
    """Complete stored preferences with the defaults.

    :param stored: channels on or off by kind, where the user decided
    :return: all channels by kind; kinds and channels that no longer exist are left out
    """
    return {
        kind: {channel: stored.get(kind, {}).get(channel, channel in defaults) for channel in CHANNELS}
        for kind, defaults in DEFAULTS.items()
    }


def merge_preferences(
    stored: Mapping[str, Mapping[str, bool]], changes: Mapping[str, Mapping[str, bool]]
) -> Preferences:
    """Apply changes to stored preferences. Missing kinds and channels keep their values.

    :return: the preferences to store
    """
    return {
        kind: {**stored.get(kind, {}), **changes.get(kind, {})} for kind in stored.keys() | changes.keys()
    }
