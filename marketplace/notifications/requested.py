"""Deliveries that the database or another service requests through the function ``deliver-notification``."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import exists, select, update
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.kernel.errors import NotFoundError, ValidationError
from marketplace.notifications import texts
from marketplace.notifications.kinds import REQUESTABLE
from marketplace.notifications.models import Notification, NotificationDeliveryLog
from marketplace.notifications.operations import notify


@dataclass(frozen=True)
class RequestedNotification:
    """A notification of another service. The id makes repeated requests harmless."""

    id: UUID
    user_id: UUID
    kind: str
    title: str
    body: str
    link: str | None


def deliver_existing(session: Session, *, notification_id: UUID, now: datetime) -> bool:
    """Deliver a notification that has no deliveries yet.

    :return: whether the deliveries will be planned; false if they are planned already
    :raises NotFoundError: the notification does not exist
    """
    updated = session.execute(
        update(Notification)
        .where(
            Notification.id == notification_id,
            Notification.deliver_at.is_(None),
            ~exists().where(NotificationDeliveryLog.notification_id == notification_id),
        )
        .values(deliver_at=now)
        .returning(Notification.id)
    ).first()
    if updated is not None:
        return True
    if session.scalar(select(Notification.id).where(Notification.id == notification_id)) is None:
        raise NotFoundError(texts.NOTIFICATION_NOT_FOUND)
    return False


def deliver_new(session: Session, *, requested: RequestedNotification, now: datetime) -> bool:
    """Write a notification of another service and deliver it. A repeated request changes nothing.

    :return: whether the notification is new
    :raises ValidationError: the kind is unknown or carries a delivery PIN, or the person does not exist
    """
    if requested.kind not in REQUESTABLE:
        raise ValidationError.of("kind", texts.KIND_NOT_DELIVERABLE)
    if session.get(Profile, requested.user_id) is None:
        raise ValidationError.of("userId", texts.PERSON_NOT_FOUND)
    written = notify(
        session,
        user_id=requested.user_id,
        type=requested.kind,
        title=requested.title,
        body=requested.body,
        link=requested.link,
        cause=f"function:{requested.id}",
        now=now,
    )
    return written is not None
