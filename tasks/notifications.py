"""Tasks of notifications: deliver by push, messages, SMS and e-mail."""

from datetime import datetime
from functools import partial

from marketplace.kernel import queues
from marketplace.notifications.delivery.drain import (
    DeliveryServices,
    DrainResult,
    deliver_due,
)
from marketplace.notifications.unsubscribe import make_unsubscribe_url
from marketplace.orders.pin import fetch_order_pin
from marketplace.services import Services
from marketplace.support.email_replies import reply_address_of_link
from tasks.registry import QueueSweeper, periodic

# A run drains the queue. The next run follows within five seconds.
_MAX_SECONDS = 25.0


@periodic(
    "deliver-notifications",
    queue=queues.NOTIFICATIONS,
    schedule="every 5s",
    purpose="Deliver notifications by push, template message, SMS and e-mail",
)
def deliver_notifications(services: Services, _sweeper: QueueSweeper, _now: datetime) -> DrainResult:
    """Deliver all notifications that are due."""
    return deliver_due(delivery_services(services), max_seconds=_MAX_SECONDS)


def delivery_services(services: Services) -> DeliveryServices:
    """Return the collaborators of a drain."""
    settings = services.settings
    return DeliveryServices(
        database=services.database,
        clock=services.clock,
        channels=services.delivery_channels(),
        health=services.delivery_health,
        fetch_pin=partial(fetch_order_pin, key=settings.delivery_pin_key),
        client_base_url=settings.client_url,
        make_unsubscribe_url=partial(
            make_unsubscribe_url, key=settings.cursor_key, base_url=settings.public_base_url
        ),
        make_reply_address=partial(
            reply_address_of_link, key=settings.cursor_key, domain=settings.mail_reply_domain
        ),
        sms_daily_limit_minor=settings.sms_daily_limit_naira * 100,
    )
