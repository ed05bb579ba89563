"""Plan deliveries: one for each channel that the person's preferences and contacts allow."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from marketplace.identity.models import CONTACT
from marketplace.identity.preferences import resolve_preferences
from marketplace.infra.sql.statements import Prepared
from marketplace.notifications.delivery.policy import first_due_at, later_pin_channels
from marketplace.notifications.kinds import (
    EMAIL,
    KINDS,
    MESSAGING,
    PIN_CHANNELS,
    PUSH,
    SMS,
    NotificationKind,
)
from marketplace.notifications.models import (
    OPT_OUT_INDEX,
    MessageOptOut,
    Notification,
    NotificationDeliveryLog,
    UserDevice,
)

# The preferences' word for the channel of the messaging provider.
_PREFERENCE_NAMES = {MESSAGING: "message"}


@dataclass(frozen=True, slots=True)
class PlannedDelivery:
    """A delivery to queue."""

    notification_id: UUID
    user_id: UUID
    channel: str
    device_id: UUID | None
    attempt: int
    due_at: datetime


@dataclass(frozen=True, slots=True)
class _Recipient:
    """The contacts of a person that a channel can use."""

    preferences: dict[str, Any]
    has_email: bool
    has_phone: bool
    has_opted_out: bool
    device_ids: Sequence[UUID]

    def targets(self, channel: str) -> Sequence[UUID | None]:
        """List the devices of a push; one entry without a device for another channel; empty without a contact."""
        if channel == PUSH:
            return self.device_ids
        usable = {
            MESSAGING: self.has_phone and not self.has_opted_out,
            SMS: self.has_phone,
            EMAIL: self.has_email,
        }
        return [None] if usable[channel] else []


@dataclass(frozen=True)
class _DueNotification:
    id: UUID
    user_id: UUID
    type: str
    former_kind: str | None
    email: str | None
    profile_phone: str | None
    phone_verified: bool
    notification_preferences: dict[str, Any]

    @property
    def phone(self) -> str | None:
        """The verified phone number."""
        return self.profile_phone if self.phone_verified else None


_SELECT_DUE = Prepared(
    text(
        """
        SELECT n.id, n.user_id, n.type, f.kind AS former_kind, p.email,
            p.phone AS profile_phone, p.phone_verified_at IS NOT NULL AS phone_verified, p.notification_preferences
        FROM notifications n JOIN profiles p ON p.id = n.user_id
            LEFT JOIN former_contacts f ON f.id = n.former_contact_id
        WHERE n.deliver_at <= :now
        ORDER BY n.deliver_at LIMIT :limit FOR UPDATE OF n SKIP LOCKED
        """
    ),
    row=_DueNotification,
    encrypted={"profile_phone": CONTACT},
)


def plan_due_notifications(
    session: Session, *, configured: Collection[str], now: datetime, limit: int
) -> int:
    """Queue the deliveries of notifications that are due, the earliest first.

    :param configured: the channels of this installation
    :return: the number of planned notifications
    """
    due = list(_SELECT_DUE.all(session, now=now, limit=limit))
    if not due:
        return 0
    opted_out = list_opted_out(session, phones={row.phone for row in due if row.phone})
    devices = _list_devices(session, user_ids={row.user_id for row in due})
    planned: list[PlannedDelivery] = []
    for row in due:
        recipient = _Recipient(
            preferences=row.notification_preferences,
            has_email=row.email is not None,
            has_phone=row.phone is not None,
            has_opted_out=row.phone in opted_out,
            device_ids=devices[row.user_id],
        )
        kind = KINDS[row.type]
        if row.former_kind is None:
            channels = _channels(kind, recipient, configured)
        else:
            # The contact that was replaced is the only recipient.
            channels = [EMAIL if row.former_kind == "email" else SMS]
        for channel in channels:
            targets = recipient.targets(channel) if row.former_kind is None else [None]
            planned.extend(
                PlannedDelivery(row.id, row.user_id, channel, target, 1, first_due_at(kind, channel, now))
                for target in targets
            )
    insert_deliveries(session, planned, now=now)
    session.execute(
        update(Notification).where(Notification.id.in_([row.id for row in due])).values(deliver_at=None),
        execution_options={"synchronize_session": False},
    )
    return len(due)


def _channels(kind: NotificationKind, recipient: _Recipient, configured: Collection[str]) -> list[str]:
    """List the channels of a kind. The PIN takes the first possible channel, and others by fallback."""
    wanted = set(kind.channels)
    if kind.preference is not None:
        allowed = resolve_preferences(recipient.preferences)[kind.preference]
        wanted = {channel for channel in wanted if allowed[_PREFERENCE_NAMES.get(channel, channel)]}
    if kind.carries_pin:
        first = next(
            (channel for channel in PIN_CHANNELS if channel in configured and recipient.targets(channel)),
            None,
        )
        wanted = (wanted - set(PIN_CHANNELS)) | ({first} if first else set())
    return [channel for channel in kind.channels if channel in wanted and channel in configured]


def list_opted_out(session: Session, *, phones: Collection[str]) -> set[str]:
    """Return the phone numbers whose owners stopped messages of the messaging provider."""
    if not phones:
        return set()
    hashes = {OPT_OUT_INDEX.compute(phone): phone for phone in phones}
    rows = session.scalars(select(MessageOptOut.phone_index).where(MessageOptOut.phone_index.in_(phones)))
    return {hashes[bytes(row)] for row in rows if not isinstance(row, str)}


def _list_devices(session: Session, *, user_ids: Iterable[UUID]) -> defaultdict[UUID, list[UUID]]:
    devices: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for device_id, user_id in session.execute(
        select(UserDevice.id, UserDevice.user_id).where(UserDevice.user_id.in_(user_ids))
    ):
        devices[user_id].append(device_id)
    return devices


_INSERT_DELIVERIES = Prepared(
    text(
        """
        INSERT INTO notification_delivery_logs
            (notification_id, user_id, channel, device_id, attempt, status, due_at, created_at, updated_at)
        SELECT notification_id, user_id, channel, device_id, attempt, 'queued', due_at, :now, :now FROM unnest(
            CAST(:notifications AS uuid[]), CAST(:users AS uuid[]), CAST(:channels AS text[]),
            CAST(:devices AS uuid[]), CAST(:attempts AS bigint[]), CAST(:due AS timestamptz[])
        ) AS planned (notification_id, user_id, channel, device_id, attempt, due_at)
        ON CONFLICT (notification_id, channel, device_id, attempt) WHERE notification_id IS NOT NULL DO NOTHING
        """
    )
)


def insert_deliveries(session: Session, planned: Sequence[PlannedDelivery], *, now: datetime) -> None:
    """Queue deliveries. A delivery that exists already stays as it is."""
    if planned:
        _INSERT_DELIVERIES.run(
            session,
            notifications=[one.notification_id for one in planned],
            users=[one.user_id for one in planned],
            channels=[one.channel for one in planned],
            devices=[one.device_id for one in planned],
            attempts=[one.attempt for one in planned],
            due=[one.due_at for one in planned],
            now=now,
        )


@dataclass(frozen=True)
class _DueFallback:
    id: UUID
    notification_id: UUID
    user_id: UUID
    channel: str
    is_received: bool
    profile_phone: str | None
    phone_verified: bool

    @property
    def phone(self) -> str | None:
        """The verified phone number."""
        return self.profile_phone if self.phone_verified else None


_SELECT_DUE_FALLBACKS = Prepared(
    text(
        """
        SELECT d.id, d.notification_id, d.user_id, d.channel,
            d.status IN ('delivered', 'read') OR n.read_at IS NOT NULL AS is_received,
            p.phone AS profile_phone, p.phone_verified_at IS NOT NULL AS phone_verified
        FROM notification_delivery_logs d JOIN notifications n ON n.id = d.notification_id
            JOIN profiles p ON p.id = d.user_id
        WHERE d.fallback_at <= :now
        ORDER BY d.fallback_at LIMIT :limit FOR UPDATE OF d SKIP LOCKED
        """
    ),
    row=_DueFallback,
    encrypted={"profile_phone": CONTACT},
)


def plan_due_fallbacks(session: Session, *, configured: Collection[str], now: datetime, limit: int) -> int:
    """Queue the next channel of messages without a receipt.

    :param configured: the channels of this installation
    :return: the number of messages that were decided
    """
    due = list(_SELECT_DUE_FALLBACKS.all(session, now=now, limit=limit))
    if not due:
        return 0
    opted_out = list_opted_out(session, phones={row.phone for row in due if row.phone})
    planned = []
    for row in due:
        channels = [
            channel
            for channel in later_pin_channels(row.channel)
            if channel in configured
            and row.phone is not None
            and (channel == SMS or row.phone not in opted_out)
        ]
        if channels and not row.is_received:
            planned.append(PlannedDelivery(row.notification_id, row.user_id, channels[0], None, 1, now))
    insert_deliveries(session, planned, now=now)
    session.execute(
        update(NotificationDeliveryLog)
        .where(NotificationDeliveryLog.id.in_([row.id for row in due]))
        .values(fallback_at=None, updated_at=now),
        execution_options={"synchronize_session": False},
    )
    return len(due)
