"""Severity of tickets by rule, and the target times by severity."""

import re
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

SEV_1, SEV_2, SEV_3, SEV_4 = SEVERITIES = ("SEV-1", "SEV-2", "SEV-3", "SEV-4")
ORDER, PAYMENT, DELIVERY, ACCOUNT, VENDOR, OTHER = CATEGORIES = (
    *("order", "payment", "delivery"),
    *("account", "vendor", "other"),
)
_LAGOS = ZoneInfo("Africa/Lagos")
# A ticket of the lowest severity is answered by the end of the next business day.
_CLOSING_TIME = time(17)
_SATURDAY = 5
_RESPONSE_TARGETS = {
    SEV_1: timedelta(minutes=15),
    SEV_2: timedelta(minutes=30),
    SEV_3: timedelta(hours=4),
}
_RESOLUTION_TARGETS = {
    SEV_1: timedelta(hours=4),
    SEV_2: timedelta(days=1),
    SEV_3: timedelta(days=3),
    SEV_4: timedelta(days=7),
}
# Words about a danger to a person. A false alarm costs staff a minute.
_DANGER = re.compile(
    r"\b(threat(?:s|en\w*)?|assault\w*|attack(?:ed|ing|s)?|weapons?|knife|gun|rap(?:e|ed|ist)|harass\w*|stalk\w*"
    r"|blackmail\w*|robb(?:ed|ery)|kidnap\w*|unsafe|violen\w*|beat(?:en|ing)? me|in danger|kill\w*|suicid\w*"
    r"|my nudes?|follow(?:ed|ing) me)\b",
    re.IGNORECASE,
)


def classify(*, category: str, wording: str, in_escrow: bool) -> str:
    """Return the severity of a new ticket: safety first, then money in escrow, then orders.

    :param category: one of ``CATEGORIES``
    :param wording: subject and message
    :param in_escrow: whether escrow holds money of the ticket's order
    """
    if _DANGER.search(wording):
        return SEV_1
    if in_escrow or category == PAYMENT:
        return SEV_2
    return SEV_3 if category in (ORDER, DELIVERY, VENDOR) else SEV_4


def response_due_at(severity: str, *, since: datetime, closed_days: AbstractSet[date]) -> datetime:
    """Return the time by which staff should answer a message.

    :param since: the time of the message
    :param closed_days: public holidays in Nigeria's calendar
    """
    target = _RESPONSE_TARGETS.get(severity)
    if target is not None:
        return since + target
    day = since.astimezone(_LAGOS).date() + timedelta(days=1)
    while day.weekday() >= _SATURDAY or day in closed_days:
        day += timedelta(days=1)
    return datetime.combine(day, _CLOSING_TIME, _LAGOS).astimezone(since.tzinfo)


def resolution_due_at(severity: str, *, since: datetime) -> datetime:
    """Return the time by which a ticket should be resolved.

    :param since: the time of opening
    """
    return since + _RESOLUTION_TARGETS[severity]
