"""Delivery by a real worker process: a paid order's PIN, a killed worker, and secrets in the database and in logs."""

import base64
import secrets
import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from marketplace.identity.models import Profile
from marketplace.notifications.devices import WebPushSubscription, register_device
from marketplace.notifications.operations import notify
from sandbox.providers.inbox.context import MAXIMUM_OUTCOMES
from tests.support.forked_processes import Forked
from tests.support.purchases import Shop, make_shop, paid_order, pin_of
from tests.support.servers import dump_data
from tests.support.service_processes import ServiceProcesses, kill

QUEUE = "notifications"
PHONE, ADDRESS = "+2348035550147", "amara.held@students.example"


class DeliverySite:
    """A site whose providers are stand-ins, with a buyer who has a phone, an e-mail address and a browser."""

    def __init__(self, site: ServiceProcesses, shop: Shop) -> None:
        self.site = site
        self.shop = shop

    def messages(self, channel: str) -> list[dict[str, Any]]:
        """List the messages that the stand-in of a channel accepted."""
        return [dict(message) for message in self.site.providers.inbox.list_messages(channel=channel)]

    def attempts(self) -> list[tuple[str, str, str | None]]:
        """List channel, status and class of error of all attempts."""
        return self.site.query(
            "SELECT channel, status, error_class FROM notification_delivery_logs ORDER BY id"
        )

    def sms(self) -> list[str]:
        """List the texts of the buyer's SMS."""
        return [sent["text"] for sent in self.site.providers.sms.list_messages(PHONE.removeprefix("+"))]

    def pay(self) -> UUID:
        """Pay an order of the buyer, and return the id of the order."""
        order_id = self.site.database.in_transaction(paid_order, self.shop)
        # The order was paid at a fixed time of the tests, and its notifications would have expired.
        self.site.query("UPDATE notifications SET created_at = now()")
        return order_id

    def let_a_minute_pass(self, worker: Forked) -> None:
        """Make the fallback to the next channel due, once the worker has recorded the attempt."""
        self.site.wait_until(
            lambda: self.site.query(
                "UPDATE notification_delivery_logs SET fallback_at = now() WHERE fallback_at IS NOT NULL"
                " RETURNING id"
            ),
            worker,
        )
        self.drain_soon()

    def drain_soon(self) -> None:
        """Make the next run of the periodic task due."""
        self.site.query("UPDATE periodic_tasks SET next_run_at = now() WHERE name = 'deliver-notifications'")

    def finished_drains(self) -> int:
        """Return the number of finished runs of the periodic task."""
        [(runs,)] = self.site.query("SELECT runs FROM periodic_tasks WHERE name = 'deliver-notifications'")
        return int(runs)

    def notify(self, kind: str) -> UUID:
        """Notify the buyer."""
        written = self.site.database.in_transaction(
            notify,
            user_id=self.shop.buyer.id,
            type=kind,
            title="A title",
            body="A body.",
            link="/orders",
            cause=f"tests:{uuid4()}",
            now=datetime.now(UTC),
        )
        assert written is not None
        return written


def delivered_status(attempt_id: UUID, message_id: str) -> dict[str, str]:
    """Return the messaging provider's receipt of an attempt."""
    return {
        "id": message_id,
        "status": "delivered",
        "timestamp": str(int(time.time())),
        "recipient_id": PHONE.removeprefix("+"),
        "biz_opaque_callback_data": str(attempt_id),
    }


@pytest.fixture
def delivery(site: ServiceProcesses) -> DeliverySite:
    providers = site.providers
    site.environment |= {
        "MESSAGING_URL": f"{providers.inbox_url}/cloud/v23.0",
        "MESSAGING_ACCESS_TOKEN": "of-the-tests-only",
        "MESSAGING_PHONE_ID": "100200300",
        "SMTP_URL": providers.smtp_url,
        "VAPID_PRIVATE_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode(),
        "WEB_PUSH_URL": f"{providers.inbox_url}/push",
    }
    providers.inbox.reset()
    providers.sms.reset()
    site.query("DELETE FROM notification_delivery_logs")
    site.query("DELETE FROM notifications")
    shop = site.database.in_transaction(make_shop)
    with site.database.transaction() as session:
        session.execute(
            text(
                "UPDATE profiles SET phone = NULL, phone_index = NULL, phone_verified_at = NULL, email = NULL"
            )
        )
        profile = session.get_one(Profile, shop.buyer.id)
        profile.phone, profile.phone_verified_at, profile.email = PHONE, datetime.now(UTC), ADDRESS
    return DeliverySite(site, shop)


def test_pin_reaches_the_buyer_and_nothing_else(delivery: DeliverySite) -> None:
    site = delivery.site
    order_id = delivery.pay()
    worker = site.worker(QUEUE)
    site.wait_until(lambda: delivery.messages("messaging") and delivery.messages("email"), worker)
    pin = pin_of(order_id)

    [message] = delivery.messages("messaging")
    parameters = message["content"]["template"]["components"][0]["parameters"]
    assert parameters[1]["text"] == pin
    assert all(pin not in str(mail["content"]) for mail in delivery.messages("email"))
    site.wait_until(lambda: all(status != "sending" for _, status, _ in delivery.attempts()), worker)
    site.stop_processes()
    stored = dump_data(site.postgres.url)
    logs = "".join(path.read_text() for path in site.directory.glob("worker*.log"))
    assert f"'{pin}'" not in stored
    assert f" {pin} " not in stored
    assert [secret for secret in (pin, PHONE.removeprefix("+234"), ADDRESS) if secret in logs] == []
    payloads = str(site.query("SELECT payload, last_error FROM outbox_events"))
    assert [secret for secret in (PHONE, ADDRESS) if secret in payloads] == []


def test_mail_of_a_killed_worker_is_sent_again_with_the_same_id(delivery: DeliverySite) -> None:
    site, inbox = delivery.site, delivery.site.providers.inbox
    delivery.notify("payout_sent")
    inbox.plan("email", "lost", 1)
    worker = site.worker(QUEUE)
    site.wait_until(lambda: delivery.messages("email"), worker)
    kill(worker)
    site.query("UPDATE notification_delivery_logs SET lease_until = now() WHERE status = 'sending'")
    site.query(
        "UPDATE periodic_tasks SET lease_until = now(), next_run_at = now() WHERE lease_until IS NOT NULL"
    )
    worker = site.worker(QUEUE)
    site.wait_until(lambda: ("email", "failed", "unknown_outcome") in delivery.attempts(), worker)
    site.query("UPDATE notification_delivery_logs SET due_at = now() WHERE status = 'queued'")
    site.wait_until(lambda: len(delivery.messages("email")) == 2, worker)

    ids = {mail["content"]["messageId"] for mail in delivery.messages("email")}
    assert len(ids) == 1


def test_pin_falls_back_to_sms_without_a_receipt(delivery: DeliverySite) -> None:
    site, inbox = delivery.site, delivery.site.providers.inbox
    subscription = inbox.subscribe()
    site.database.in_transaction(
        register_device,
        user_id=delivery.shop.buyer.id,
        name=None,
        subscription=WebPushSubscription(endpoint=subscription.endpoint, **subscription.to_json()["keys"]),
        token=None,
        now=datetime.now(UTC),
        local_push_url=f"{site.providers.inbox_url}/push",
    )
    inbox.plan("messaging", "silent", 1)
    order_id = delivery.pay()
    pin = pin_of(order_id)
    web, worker = site.web(), site.worker(QUEUE)
    site.wait_until(lambda: delivery.messages("web_push"), worker)
    assert pin not in str(delivery.messages("web_push"))
    delivery.let_a_minute_pass(worker)
    site.wait_until(lambda: delivery.messages("messaging"), worker)
    delivery.let_a_minute_pass(worker)
    site.wait_until(delivery.sms, worker)

    [sms] = delivery.sms()
    assert pin in sms
    # The receipt of the message arrives after all, by the signed webhook.
    [(attempt_id, message_id)] = site.query(
        "SELECT id, provider_message_id FROM notification_delivery_logs WHERE channel = 'messaging'"
    )
    inbox.post_webhook({"statuses": [delivered_status(attempt_id, message_id)]})
    webhooks = site.worker("webhooks")
    site.wait_until(lambda: ("messaging", "delivered", None) in delivery.attempts(), webhooks)
    drains = delivery.finished_drains()
    delivery.drain_soon()
    site.wait_until(lambda: delivery.finished_drains() > drains + 1, worker)
    assert len(delivery.sms()) == 1
    assert web.running


def test_provider_that_is_down_for_an_hour_delays_only_its_channel(delivery: DeliverySite) -> None:
    site, inbox = delivery.site, delivery.site.providers.inbox
    inbox.plan("email", "error", MAXIMUM_OUTCOMES)
    order_id = delivery.pay()
    worker = site.worker(QUEUE)
    site.wait_until(lambda: delivery.messages("messaging"), worker)
    site.wait_until(lambda: ("email", "failed", "unavailable") in delivery.attempts(), worker)
    assert delivery.messages("email") == []

    inbox.end_plans("email")
    site.query("UPDATE notification_delivery_logs SET due_at = now() WHERE status = 'queued'")
    site.wait_until(lambda: delivery.messages("email"), worker)
    assert pin_of(order_id) in str(delivery.messages("messaging"))
    assert len(delivery.messages("messaging")) == 1
