"""SMS with one-time codes, which are sent in a request: the daily limit and the log of attempts."""

import time
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity import phone_verification
from marketplace.identity.phone_verification import IssuedCode
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError, ServiceUnavailableError
from marketplace.notifications import texts
from marketplace.notifications.delivery.record import FAILED, SENT, UNAVAILABLE, UNKNOWN_OUTCOME
from marketplace.notifications.delivery.sms_limit import is_limit_reached
from marketplace.notifications.kinds import SMS
from marketplace.notifications.models import NotificationDeliveryLog
from marketplace.providers.messaging.sms import SmsGateway, count_parts

_RETRY_AFTER_SECONDS = 3_600


def ensure_within_sms_limit(session: Session, *, settings: Settings, now: datetime) -> None:
    """Check that the SMS of the day have not reached the limit of their cost.

    The alert was raised with the SMS that reached the limit.

    :raises ServiceUnavailableError: the limit is reached
    """
    if is_limit_reached(session, limit_minor=settings.sms_daily_limit_naira * 100, now=now):
        raise ServiceUnavailableError(texts.SMS_LIMIT_DETAIL, retry_after_seconds=_RETRY_AFTER_SECONDS)


def send_code(
    database: Database,
    sms: SmsGateway,
    issued: IssuedCode,
    *,
    user_id: UUID,
    settings: Settings,
    now: datetime,
) -> None:
    """Send a code by SMS, and log the attempt.

    :raises ProviderUnavailableError: the SMS was refused or may not have been sent
    """
    started_at = time.perf_counter()
    attempt = NotificationDeliveryLog(user_id=user_id, channel=SMS, status_at=now, created_at=now)
    try:
        sent = phone_verification.send_code(sms, issued)
    except ProviderUnavailableError as error:
        attempt.status = FAILED
        attempt.error_class = UNKNOWN_OUTCOME if error.may_have_happened else UNAVAILABLE
        raise
    else:
        attempt.status, attempt.provider_message_id = SENT, sent.message_id
        attempt.cost_minor = count_parts(phone_verification.code_text(issued)) * settings.sms_price_kobo
    finally:
        attempt.milliseconds = round((time.perf_counter() - started_at) * 1000)
        with database.transaction() as session:
            session.add(attempt)
            session.flush()
            is_limit_reached(session, limit_minor=settings.sms_daily_limit_naira * 100, now=now)
