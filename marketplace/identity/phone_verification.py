"""Verify phone numbers by a code that is sent as SMS.

Codes are derived from the row's id and never stored. Both functions lock the number before the profiles, so that two
people who verify the same number wait for each other.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar
from uuid import UUID

import structlog
from sqlalchemy import Select, func, or_, select, text
from sqlalchemy.orm import Session

from marketplace.identity import operations, queries, texts
from marketplace.identity.models import PhoneCode, Profile
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import (
    ConflictError,
    InvalidParam,
    ProviderUnavailableError,
    RateLimitError,
    ValidationError,
)
from marketplace.kernel.one_time_codes import code_matches, derive_code
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging.sms import SentSms, SmsGateway

MAX_ATTEMPTS = 5
VALIDITY = timedelta(minutes=10)
# With 5 attempts per code, 20 codes a day leave a chance of 1 in 10,000 to verify another person's number.
MAX_CODES_PER_DAY = 20
MAX_CODES_PER_MINUTE = 10
_log = structlog.get_logger(__name__)


class PhoneAlreadyVerifiedError(ConflictError):
    """The profile's phone number is already verified."""

    reason = "phone-already-verified"


class NoValidCodeError(ConflictError):
    """The user has no code, or the code has expired, was used, or had too many wrong attempts."""

    reason = "no-valid-code"


class WrongCodeError(ValidationError):
    """The code is wrong. The count of attempts is stored although the request is refused."""

    reason = "wrong-code"
    keeps_changes: ClassVar[bool] = True


@dataclass(frozen=True)
class IssuedCode:
    """A code to send to a number. The code never reaches a log or a table."""

    phone: str
    code: str
    expires_at: datetime
    attempts_left: int = MAX_ATTEMPTS

    def __repr__(self) -> str:
        return f"IssuedCode(expires_at={self.expires_at!r})"


_LOCK_NUMBER = Statement(text("SELECT pg_advisory_xact_lock(hashtextextended('phone:' || :phone, 0))"))


def issue_code(session: Session, *, user_id: UUID, phone: str, key: str, now: datetime) -> IssuedCode:
    """Issue a code for a phone number. A new code replaces the user's earlier codes.

    The caller sends the code after the commit.

    :param phone: a mobile number in international format
    :param key: the setting DELIVERY_PIN_KEY
    :raises PhoneAlreadyVerifiedError: the profile has this number, verified
    :raises RateLimitError: too many codes for the user or the number
    """
    _LOCK_NUMBER.run(session, phone=phone)
    operations.lock_profile(session, user_id=user_id)
    verified = select(Profile.phone).where(Profile.id == user_id, Profile.phone_verified_at.is_not(None))
    if session.scalar(verified) == phone:
        raise PhoneAlreadyVerifiedError(texts.PHONE_ALREADY_VERIFIED)
    _ensure_below_limits(session, user_id=user_id, phone=phone, now=now)
    row = PhoneCode(
        user_id=user_id, phone=phone, phone_index=phone, created_at=now, expires_at=now + VALIDITY, failures=0
    )
    session.add(row)
    session.flush()
    return IssuedCode(phone, derive_code(key=key, subject=_subject(row)), row.expires_at)


def _ensure_below_limits(session: Session, *, user_id: UUID, phone: str, now: datetime) -> None:
    by_user = PhoneCode.user_id == user_id
    by_number = PhoneCode.phone_index == phone
    counts = session.execute(
        select(
            func.count().filter(by_user).label("user_today"),
            func.count().filter(by_number).label("number_today"),
            func.count()
            .filter(by_number, PhoneCode.created_at > now - timedelta(minutes=1))
            .label("number_this_minute"),
        ).where(or_(by_user, by_number), PhoneCode.created_at > now - timedelta(days=1))
    ).one()
    if counts.number_this_minute >= MAX_CODES_PER_MINUTE:
        raise RateLimitError(texts.TOO_MANY_CODES_THIS_MINUTE, retry_after_seconds=60)
    if max(counts.user_today, counts.number_today) >= MAX_CODES_PER_DAY:
        retry_after = int(timedelta(hours=1).total_seconds())
        raise RateLimitError(texts.TOO_MANY_CODES_TODAY, retry_after_seconds=retry_after)


def code_text(issued: IssuedCode) -> str:
    """Return the text of the SMS with a code."""
    return texts.PHONE_CODE_SMS.format(code=issued.code)


def send_code(sms: SmsGateway, issued: IssuedCode) -> SentSms:
    """Send a code to the number by SMS.

    :raises ProviderUnavailableError: the SMS was refused or may not have been sent
    """
    try:
        return sms.send(phone=issued.phone, text=code_text(issued))
    except ProviderRefusedError as error:
        _log.warning("sms refused", status=error.status)
        unavailable = ProviderUnavailableError(texts.SMS_NOT_SENT)
        unavailable.may_have_happened = False
        raise unavailable from None


def confirm_code(
    session: Session, *, user_id: UUID, code: str, key: str, media_base_url: str, now: datetime
) -> queries.OwnProfile:
    """Check a code, and store the number in the profile as verified.

    Another profile with the same verified number loses the verification, because numbers change hands.

    :param code: six digits
    :param key: the setting DELIVERY_PIN_KEY
    :return: the owner's view of the profile
    :raises NoValidCodeError: the user has no code that can still be confirmed
    :raises WrongCodeError: the code is wrong; the error has the number of attempts left
    """
    phone = session.scalar(_select_valid_code(user_id, now).with_only_columns(PhoneCode.phone))
    if phone is None:
        raise NoValidCodeError(texts.NO_VALID_CODE)
    _LOCK_NUMBER.run(session, phone=phone)
    profiles = session.scalars(
        select(Profile)
        .where(
            or_(
                Profile.id == user_id, (Profile.phone_index == phone) & Profile.phone_verified_at.is_not(None)
            )
        )
        .order_by(Profile.id)
        .with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    ).all()
    row = session.scalar(_select_valid_code(user_id, now))
    if row is None or row.phone != phone:
        raise NoValidCodeError(texts.NO_VALID_CODE)
    if not code_matches(key=key, subject=_subject(row), code=code):
        row.failures += 1
        session.flush()
        raise WrongCodeError(
            texts.WRONG_CODE,
            invalid_params=[InvalidParam("code", texts.WRONG_CODE)],
            extensions={"attemptsLeft": MAX_ATTEMPTS - row.failures},
        )
    row.used_at = now
    for profile in profiles:
        if profile.id != user_id:
            profile.phone_verified_at = None
            profile.revision += 1
            profile.updated_at = now
    session.flush()  # the unique index allows one profile at a time
    operations.set_verified_phone(session, user_id=user_id, phone=phone, now=now)
    return queries.fetch_profile(session, user_id=user_id, media_base_url=media_base_url, now=now)


def _select_valid_code(user_id: UUID, now: datetime) -> Select[PhoneCode]:
    """Select the user's latest code, unless the code has expired, was used, or had too many wrong attempts."""
    latest = (
        select(PhoneCode.id)
        .where(PhoneCode.user_id == user_id)
        .order_by(PhoneCode.created_at.desc(), PhoneCode.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(PhoneCode).where(
        PhoneCode.id == latest,
        PhoneCode.expires_at > now,
        PhoneCode.used_at.is_(None),
        PhoneCode.failures < MAX_ATTEMPTS,
    )


def _subject(row: PhoneCode) -> str:
    return f"phone-code:{row.id}"
