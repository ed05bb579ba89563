"""The daily limit of the cost of SMS, and its alert. The day is a day in Nigeria."""

from datetime import datetime
from typing import Final

from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.notifications import texts
from marketplace.notifications.delivery.policy import day_start
from marketplace.notifications.delivery.record import sum_sms_cost

_ALERT: Final = "SMS_LIMIT_REACHED"
_SUBJECT = "sms"


def is_limit_reached(session: Session, *, limit_minor: int, now: datetime) -> bool:
    """Return whether the SMS of the day cost the limit or more, and raise or resolve the alert.

    :param limit_minor: the limit in kobo
    """
    cost_minor = sum_sms_cost(session, since=day_start(now))
    if cost_minor < limit_minor:
        resolve_alert(session, identifier=_ALERT, subject=_SUBJECT, note=texts.SMS_LIMIT_RESOLVED, now=now)
        return False
    raise_alert(
        session,
        identifier=_ALERT,
        subject=_SUBJECT,
        title=texts.SMS_LIMIT_TITLE,
        facts={"costMinor": cost_minor},
        now=now,
    )
    return True
