"""Policies of delivery: retries by channel, unknown outcomes, quiet hours, fallback and time limits."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from marketplace.notifications.kinds import EMAIL, MESSAGING, PIN_CHANNELS, PUSH, SMS, NotificationKind

_SECOND, _MINUTE, _HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
# Delays before the second and each further attempt. The last delay repeats during an outage.
_RETRY_DELAYS = {
    PUSH: (10 * _SECOND, _MINUTE, 5 * _MINUTE, 30 * _MINUTE),
    MESSAGING: (30 * _SECOND, 2 * _MINUTE, 10 * _MINUTE, _HOUR),
    SMS: (30 * _SECOND, 2 * _MINUTE, 10 * _MINUTE),
    EMAIL: (_MINUTE, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 8 * _HOUR),
}
# A device and a mail program show a repeated message once, because its id is the same.
_REPEATABLE = frozenset({PUSH, EMAIL})
_MAX_PIN_ATTEMPTS = 3
# Without a receipt after this time, the PIN takes the next channel.
FALLBACK_AFTER = _MINUTE
LEASE = 2 * _MINUTE
_QUIET_FROM_HOUR, _QUIET_UNTIL_HOUR = 22, 7
CAMPUS_TIME = ZoneInfo("Africa/Lagos")


def retry_delay(channel: str, attempt: int) -> timedelta:
    """Return the delay before the next attempt. Attempts end with the notification's lifetime.

    :param attempt: the number of the failed attempt, from 1
    """
    delays = _RETRY_DELAYS[channel]
    return delays[min(attempt, len(delays)) - 1]


def repeats_unknown_outcome(channel: str, kind: NotificationKind, attempt: int) -> bool:
    """Return whether a message whose outcome is unknown is sent again.

    A delivery PIN may arrive more than once. Other messages of channels without an idempotency key rather arrive
    never: they are in the feed too.

    :param attempt: the number of the attempt with the unknown outcome, from 1
    """
    return channel in _REPEATABLE or (kind.carries_pin and attempt < _MAX_PIN_ATTEMPTS)


def first_due_at(kind: NotificationKind, channel: str, now: datetime) -> datetime:
    """Return the time of the first attempt. Quiet hours last from 22:00 to 07:00 in Nigeria, except for e-mails."""
    if not kind.waits_for_morning or channel == EMAIL:
        return now
    local = now.astimezone(CAMPUS_TIME)
    morning = local.replace(hour=_QUIET_UNTIL_HOUR, minute=0, second=0, microsecond=0)
    if local.hour >= _QUIET_FROM_HOUR:
        return (morning + timedelta(days=1)).astimezone(now.tzinfo)
    return morning.astimezone(now.tzinfo) if local.hour < _QUIET_UNTIL_HOUR else now


def day_start(now: datetime) -> datetime:
    """Return the start of the day in Nigeria."""
    return now.astimezone(CAMPUS_TIME).replace(hour=0, minute=0, second=0, microsecond=0)


def later_pin_channels(channel: str) -> tuple[str, ...]:
    """Return the channels that can carry the PIN after a channel."""
    return PIN_CHANNELS[PIN_CHANNELS.index(channel) + 1 :] if channel in PIN_CHANNELS else ()
