"""Lease deliveries that are due, and record the outcomes of attempts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, select, text, update
from sqlalchemy.orm import Session

from marketplace.identity.models import CONTACT
from marketplace.infra.sql.statements import Prepared
from marketplace.notifications.delivery.plan import PlannedDelivery, insert_deliveries
from marketplace.notifications.delivery.policy import (
    FALLBACK_AFTER,
    LEASE,
    later_pin_channels,
    repeats_unknown_outcome,
    retry_delay,
)
from marketplace.notifications.kinds import KINDS
from marketplace.notifications.models import NotificationDeliveryLog, UserDevice

SENT, FAILED = "sent", "failed"
# Classes of errors, beside the names of the providers' errors.
EXPIRED, NO_RECIPIENT, OBSOLETE, DEAD_RECIPIENT = "expired", "no_recipient", "obsolete", "dead_recipient"
REFUSED, UNAVAILABLE, UNKNOWN_OUTCOME = "refused", "unavailable", "unknown_outcome"


@dataclass(frozen=True)
class LeasedDelivery:
    """A delivery that this process may attempt until the lease ends."""

    id: UUID
    notification_id: UUID
    user_id: UUID
    channel: str
    device_id: UUID | None
    attempt: int
    type: str
    title: str
    body: str
    link: str | None
    subject_id: UUID | None
    created_at: datetime
    language: str
    profile_email: str | None
    profile_phone: str | None
    phone_verified: bool
    former_kind: str | None
    former_contact: str | None

    @property
    def email(self) -> str | None:
        """The e-mail address: the replaced contact of a security notice, or the profile's address."""
        if self.former_kind is not None:
            return self.former_contact if self.former_kind == "email" else None
        return self.profile_email

    @property
    def phone(self) -> str | None:
        """The phone number: the replaced contact of a security notice, or the profile's verified number."""
        if self.former_kind is not None:
            return self.former_contact if self.former_kind == "phone" else None
        return self.profile_phone if self.phone_verified else None


_DETAILS = """
    SELECT d.id, d.notification_id, d.user_id, d.channel, d.device_id, d.attempt, n.type, n.title, n.body, n.link,
        n.subject_id, n.created_at, p.language,
        p.email AS profile_email, p.phone AS profile_phone,
        p.phone_verified_at IS NOT NULL AS phone_verified, f.kind AS former_kind, f.contact AS former_contact
    FROM leased d JOIN notifications n ON n.id = d.notification_id JOIN profiles p ON p.id = d.user_id
        LEFT JOIN former_contacts f ON f.id = n.former_contact_id
"""
_LEASE_DUE = Prepared(
    text(
        f"""
        WITH leased AS (
            UPDATE notification_delivery_logs SET status = 'sending', lease_until = :until, updated_at = :now
            WHERE id IN (
                SELECT id FROM notification_delivery_logs
                WHERE channel = :channel AND status = 'queued' AND due_at <= :now
                ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED)
            RETURNING id, notification_id, user_id, channel, device_id, attempt
        ) {_DETAILS}
        """
    ),
    row=LeasedDelivery,
    encrypted={"profile_phone": CONTACT, "former_contact": CONTACT},
)


def lease_due_deliveries(
    session: Session, *, channel: str, now: datetime, limit: int
) -> list[LeasedDelivery]:
    """Lease the deliveries of a channel that are due, the earliest first."""
    return list(_LEASE_DUE.all(session, channel=channel, now=now, until=now + LEASE, limit=limit))


def list_device_tokens(session: Session, *, device_ids: Sequence[UUID]) -> Mapping[UUID, tuple[str, str]]:
    """Return the kind and the token of devices. Removed devices are missing."""
    rows = session.execute(
        select(UserDevice.id, UserDevice.kind, UserDevice.token).where(UserDevice.id.in_(device_ids))
    )
    return {device_id: (kind, token) for device_id, kind, token in rows}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt.

    :ivar error_class: a class of error of this module; none for a sent message
    :ivar error_code: the provider's code
    :ivar cost_minor: the cost in kobo
    """

    delivery: LeasedDelivery
    error_class: str | None = None
    error_code: str | None = None
    provider_message_id: str | None = None
    cost_minor: int | None = None
    milliseconds: int | None = None


# A receipt can arrive before the outcome is recorded, so only a status "sending" changes.
_RECORD_OUTCOMES = Prepared(
    text(
        """
        UPDATE notification_delivery_logs d SET
            status = CASE d.status WHEN 'sending' THEN o.status ELSE d.status END,
            provider_message_id = coalesce(o.provider_message_id, d.provider_message_id),
            error_class = o.error_class, error_code = coalesce(o.error_code, d.error_code),
            cost_minor = o.cost_minor, milliseconds = o.milliseconds, fallback_at = o.fallback_at,
            lease_until = NULL, status_at = coalesce(d.status_at, :now), updated_at = :now
        FROM unnest(
            CAST(:ids AS uuid[]), CAST(:statuses AS text[]), CAST(:provider_ids AS text[]),
            CAST(:classes AS text[]), CAST(:codes AS text[]), CAST(:costs AS bigint[]),
            CAST(:durations AS bigint[]), CAST(:fallbacks AS timestamptz[])
        ) AS o (id, status, provider_message_id, error_class, error_code, cost_minor, milliseconds, fallback_at)
        WHERE d.id = o.id AND d.lease_until IS NOT NULL
        """
    )
)


def record_outcomes(session: Session, outcomes: Sequence[Outcome], *, now: datetime) -> None:
    """Record the outcomes of attempts: queue retries, plan the fallback of PINs, and remove dead devices."""
    if not outcomes:
        return
    retries = [retry for outcome in outcomes if (retry := _retry_of(outcome, now)) is not None]
    retried = {(one.notification_id, one.channel, one.device_id) for one in retries}
    fallbacks = [
        _fallback_at(
            outcome,
            is_retried=(
                outcome.delivery.notification_id,
                outcome.delivery.channel,
                outcome.delivery.device_id,
            )
            in retried,
            now=now,
        )
        for outcome in outcomes
    ]
    _RECORD_OUTCOMES.run(
        session,
        ids=[outcome.delivery.id for outcome in outcomes],
        statuses=[FAILED if outcome.error_class else SENT for outcome in outcomes],
        provider_ids=[outcome.provider_message_id for outcome in outcomes],
        classes=[outcome.error_class for outcome in outcomes],
        codes=[outcome.error_code for outcome in outcomes],
        costs=[outcome.cost_minor for outcome in outcomes],
        durations=[outcome.milliseconds for outcome in outcomes],
        fallbacks=fallbacks,
        now=now,
    )
    insert_deliveries(session, retries, now=now)
    dead = [outcome.delivery.device_id for outcome in outcomes if outcome.error_class == DEAD_RECIPIENT]
    if dead:
        session.execute(delete(UserDevice).where(UserDevice.id.in_(dead)))


def _retry_of(outcome: Outcome, now: datetime) -> PlannedDelivery | None:
    delivery, kind = outcome.delivery, KINDS[outcome.delivery.type]
    is_temporary = outcome.error_class == UNAVAILABLE or (
        outcome.error_class == UNKNOWN_OUTCOME
        and repeats_unknown_outcome(delivery.channel, kind, delivery.attempt)
    )
    delay = retry_delay(delivery.channel, delivery.attempt)
    if not is_temporary or now + delay > delivery.created_at + kind.lifetime:
        return None
    return PlannedDelivery(
        delivery.notification_id,
        delivery.user_id,
        delivery.channel,
        delivery.device_id,
        delivery.attempt + 1,
        now + delay,
    )


def _fallback_at(outcome: Outcome, *, is_retried: bool, now: datetime) -> datetime | None:
    """Return the time at which the PIN takes the next channel: after a minute, or at once after a final failure."""
    delivery = outcome.delivery
    if not KINDS[delivery.type].carries_pin or not later_pin_channels(delivery.channel):
        return None
    if outcome.error_class in (EXPIRED, OBSOLETE):
        return None
    # The person waits for the PIN, so the next channel does not wait for the retries of this channel.
    return now + FALLBACK_AFTER if outcome.error_class is None or is_retried else now


_LEASE_ABANDONED = Prepared(
    text(
        f"""
        WITH leased AS (
            UPDATE notification_delivery_logs SET lease_until = :until, updated_at = :now
            WHERE id IN (
                SELECT id FROM notification_delivery_logs WHERE status = 'sending' AND lease_until <= :now
                ORDER BY lease_until LIMIT :limit FOR UPDATE SKIP LOCKED)
            RETURNING id, notification_id, user_id, channel, device_id, attempt
        ) {_DETAILS}
        """
    ),
    row=LeasedDelivery,
    encrypted={"profile_phone": CONTACT, "former_contact": CONTACT},
)


def record_abandoned_deliveries(session: Session, *, now: datetime, limit: int) -> int:
    """Record the deliveries of workers that died between the call and the record as unknown outcomes.

    :return: the number of recorded deliveries
    """
    abandoned = list(_LEASE_ABANDONED.all(session, now=now, until=now + LEASE, limit=limit))
    record_outcomes(session, [Outcome(one, UNKNOWN_OUTCOME) for one in abandoned], now=now)
    return len(abandoned)


def return_deliveries(session: Session, *, ids: Sequence[UUID], due_at: datetime, now: datetime) -> None:
    """Return leased deliveries that were not attempted to the queue."""
    if ids:
        session.execute(
            update(NotificationDeliveryLog)
            .where(NotificationDeliveryLog.id.in_(ids), NotificationDeliveryLog.status == "sending")
            .values(status="queued", lease_until=None, due_at=due_at, updated_at=now),
            execution_options={"synchronize_session": False},
        )


_SUM_SMS_COST = Prepared(
    text(
        """
        SELECT coalesce(sum(cost_minor), 0) FROM notification_delivery_logs
        WHERE channel = 'sms' AND created_at >= :since
        """
    )
)


def sum_sms_cost(session: Session, *, since: datetime) -> int:
    """Return the cost of SMS since a time, in kobo."""
    return int(_SUM_SMS_COST.scalar(session, since=since))
