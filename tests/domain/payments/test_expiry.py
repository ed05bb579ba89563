"""Sweep of abandoned checkouts: no order expires before the gateway was polled."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from marketplace.cart.operations import RequestedItem
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.payments.intents import lifecycle
from marketplace.payments.intents.expiry import ExpiryResult, sweep_abandoned_checkouts
from marketplace.payments.intents.lifecycle import Intent
from marketplace.payments.intents.payment_methods import open_hosted_page
from marketplace.payments.refunds import order_cancellation
from marketplace.providers.gateway.payloads import Charge
from tests.support.gateway import TestGateway
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    check_out,
    later,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    neighbours,
    place,
    row_of,
    status_of,
    stock_of,
    trail_of,
)

DUE = later(minutes=30)
SweepNow = Callable[..., ExpiryResult]


@pytest.fixture
def shop(database: Database) -> Shop:
    with database.transaction() as session:
        return make_shop(session)


@pytest.fixture
def product_id(database: Database, shop: Shop) -> UUID:
    with database.transaction() as session:
        return make_product(session, shop, quantity=3)


@pytest.fixture
def order_id(database: Database, shop: Shop, product_id: UUID) -> UUID:
    with database.transaction() as session:
        return place(session, shop, product_id)


@pytest.fixture
def sweep(database: Database, gateway: TestGateway, settings: Settings) -> SweepNow:
    """Sweep with the real adapter."""
    adapter = gateway.adapter(settings)

    def run(now: datetime = DUE) -> ExpiryResult:
        return sweep_abandoned_checkouts(database, adapter, fee_bearer="platform", now=now)

    return run


@pytest.fixture
def opened(
    database: Database, gateway: TestGateway, settings: Settings, shop: Shop, order_id: UUID
) -> Intent:
    """The order's intent with an open hosted page."""
    intent, page = open_hosted_page(
        database,
        gateway.adapter(settings),
        buyer_id=shop.buyer.id,
        email="ada@example.com",
        target=lifecycle.PaymentTarget(order_id=order_id),
        callback_url=None,
        clock=lambda: NOW,
    )
    database.in_transaction(lifecycle.record_hosted_page, intent=intent, page=page, now=NOW)
    return intent


def status(database: Database, order_id: UUID) -> str:
    with database.reading() as session:
        return status_of(session, order_id)


def test_unpaid_order_expires_and_releases_stock(
    database: Database, sweep: SweepNow, order_id: UUID, product_id: UUID
) -> None:
    assert sweep().expired >= 1

    with database.reading() as session:
        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["expired_at"]) == ("expired", DUE)
        assert stock_of(session, product_id) == (3, 0)
        assert trail_of(session, order_id)[-1] == ("pending_payment", "expired", "expire", "system")
        assert_ledger_is_consistent(session)


def test_unpaid_order_is_not_expired_early(database: Database, sweep: SweepNow, order_id: UUID) -> None:
    sweep(later(minutes=29, seconds=59))

    assert status(database, order_id) == "pending_payment"


def test_unpaid_hosted_page_is_polled_once_and_abandoned(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    sweep()

    assert gateway.calls(opened.reference)["GET /transaction/verify"] == 1
    with database.reading() as session:
        assert status_of(session, order_id) == "expired"
        assert row_of(session, "payment_intents", id=opened.id)["status"] == "abandoned"
        assert not row_of(session, "payment_allocations", intent_id=opened.id)["live"]


def test_payment_without_webhook_is_found_and_applied(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    gateway.pay(opened.reference)

    assert sweep().paid >= 1

    with database.reading() as session:
        assert status_of(session, order_id) == "paid_escrow"
        assert row_of(session, "payment_intents", id=opened.id)["status"] == "succeeded"
        assert_ledger_is_consistent(session)


def test_order_with_failed_payment_expires(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    gateway.pay(opened.reference, outcome="failed")

    sweep()

    assert status(database, order_id) == "expired"


def test_paid_earlier_attempt_pays_the_order(
    database: Database,
    gateway: TestGateway,
    sweep: SweepNow,
    shop: Shop,
    order_id: UUID,
    opened: Intent,
) -> None:
    database.in_transaction(lifecycle.record_failed_attempt, reference=opened.reference, now=NOW)
    with database.transaction() as session:
        make_intent(session, shop, order_id)
    gateway.pay(opened.reference)

    sweep()

    assert status(database, order_id) == "paid_escrow"


def test_order_with_pending_charge_is_kept_until_paid(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    body = {
        "reference": opened.reference,
        "amount": opened.amount_minor,
        "email": "ada@example.com",
        "bank_transfer": {},
    }
    gateway.call("POST", "/charge", json=body)
    assert gateway.charge(opened.reference).status == "pending"

    assert sweep().undecided >= 1
    assert status(database, order_id) == "pending_payment"

    gateway.pay(opened.reference, channel="bank_transfer")
    sweep()
    assert status(database, order_id) == "paid_escrow"


@pytest.mark.parametrize("fault", ["refuse", "lose", "garble"])
def test_order_with_open_page_is_kept_while_gateway_is_down(
    database: Database,
    gateway: TestGateway,
    sweep: SweepNow,
    shop: Shop,
    product_id: UUID,
    opened: Intent,
    fault: str,
) -> None:
    with database.transaction() as session:
        order_without_page = place(session, shop, product_id)
    gateway.proxy.fault = fault

    done = sweep()

    assert done.gateway_down
    assert status(database, opened.order_ids[0]) == "pending_payment"
    assert status(database, order_without_page) == "expired"
    # The sweep polls at most three payments, and the client repeats each request once.
    polled = Counter(call for call in gateway.proxy.calls if "verify" in call)
    assert polled[f"GET /gateway/transaction/verify/{opened.reference}"] in (1, 2)
    assert sum(polled.values()) <= 6

    gateway.proxy.fault = None
    sweep()
    assert status(database, opened.order_ids[0]) == "expired"


def test_order_with_reference_unknown_to_gateway_expires(
    database: Database, gateway: TestGateway, sweep: SweepNow, shop: Shop, order_id: UUID
) -> None:
    with database.transaction() as session:
        intent = make_intent(session, shop, order_id)
        assert lifecycle.lease_initialization(session, intent=intent, now=NOW)

    sweep()

    assert gateway.calls(intent.reference)["GET /transaction/verify"] == 1
    assert status(database, order_id) == "expired"


def test_unpaid_checkout_is_polled_once_and_expires(
    database: Database, gateway: TestGateway, sweep: SweepNow, settings: Settings, shop: Shop
) -> None:
    order_ids, intent = opened_checkout(database, gateway, settings, shop)

    sweep()

    assert gateway.calls(intent.reference)["GET /transaction/verify"] == 1
    assert [status(database, order_id) for order_id in order_ids] == ["expired"] * 3
    with database.reading() as session:
        assert_ledger_is_consistent(session)


def test_paid_checkout_without_webhook_is_polled_once_and_fully_paid(
    database: Database, gateway: TestGateway, sweep: SweepNow, settings: Settings, shop: Shop
) -> None:
    order_ids, intent = opened_checkout(database, gateway, settings, shop)
    gateway.pay(intent.reference)

    sweep()

    assert gateway.calls(intent.reference)["GET /transaction/verify"] == 1
    assert [status(database, order_id) for order_id in order_ids] == ["paid_escrow"] * 3


def test_no_order_of_checkout_expires_while_gateway_is_down(
    database: Database, gateway: TestGateway, sweep: SweepNow, settings: Settings, shop: Shop
) -> None:
    order_ids, intent = opened_checkout(database, gateway, settings, shop)
    gateway.proxy.fault = "refuse"

    assert sweep().gateway_down

    polled = [call for call in gateway.proxy.calls if intent.reference in call]
    # The client repeats the request once. The other orders reuse the result.
    assert 1 <= len(polled) <= 2
    assert [status(database, order_id) for order_id in order_ids] == ["pending_payment"] * 3
    gateway.proxy.fault = None
    sweep()
    assert [status(database, order_id) for order_id in order_ids] == ["expired"] * 3


class FakeGateway:
    """Fake gateway with a fixed answer for a given reference and an abandoned charge for all others."""

    def __init__(self, reference: str, answer: Charge | type[Exception] | None, other: Charge) -> None:
        self.reference, self.answer, self.other = reference, answer, other

    def fetch_charge(self, reference: str) -> Charge | None:
        if reference != self.reference:
            return replace(self.other, reference=reference, status="abandoned")
        if isinstance(self.answer, type):
            raise self.answer
        return self.answer


def sweep_with(database: Database, opened: Intent, answer: Charge | type[Exception] | None) -> ExpiryResult:
    fake = FakeGateway(opened.reference, answer, make_charge(opened))
    return sweep_abandoned_checkouts(database, fake, fee_bearer="platform", now=DUE)  # type: ignore[arg-type]


@pytest.mark.parametrize("charge_status", ["ongoing", "queued", "send_otp", "", "something new"])
def test_order_without_final_charge_status_is_kept(
    database: Database, opened: Intent, charge_status: str
) -> None:
    done = sweep_with(database, opened, replace(make_charge(opened), status=charge_status))

    assert done.undecided == 1
    assert status(database, opened.order_ids[0]) == "pending_payment"
    sweep_with(database, opened, replace(make_charge(opened), status="abandoned"))
    assert status(database, opened.order_ids[0]) == "expired"


def test_order_with_open_page_unknown_to_gateway_is_kept_and_logged(
    database: Database, sweep: SweepNow, opened: Intent
) -> None:
    with capture_logs() as logs:
        sweep_with(database, opened, None)

    assert status(database, opened.order_ids[0]) == "pending_payment"
    assert [line["reference"] for line in logs if line["event"] == "payment unknown to the gateway"] == [
        opened.reference
    ]
    sweep()
    assert status(database, opened.order_ids[0]) == "expired"


def test_unanswered_poll_does_not_block_other_checkouts(
    database: Database,
    gateway: TestGateway,
    settings: Settings,
    sweep: SweepNow,
    shop: Shop,
    opened: Intent,
) -> None:
    order_ids, _ = opened_checkout(database, gateway, settings, shop)

    done = sweep_with(database, opened, ProviderUnavailableError)

    assert done.gateway_down
    assert status(database, opened.order_ids[0]) == "pending_payment"
    assert [status(database, order_id) for order_id in order_ids] == ["expired"] * 3
    sweep()
    assert status(database, opened.order_ids[0]) == "expired"


def opened_checkout(
    database: Database, gateway: TestGateway, settings: Settings, shop: Shop
) -> tuple[tuple[UUID, ...], Intent]:
    """Check out with three vendors and open the hosted page of the checkout."""
    with database.transaction() as session:
        items = [RequestedItem(make_product(session, one), 1) for one in neighbours(session, shop, 3)]
        done = check_out(session, shop, items)
    intent, page = open_hosted_page(
        database,
        gateway.adapter(settings),
        buyer_id=shop.buyer.id,
        email="ada@example.com",
        target=lifecycle.PaymentTarget(checkout_id=done.checkout_id),
        callback_url=None,
        clock=lambda: NOW,
    )
    database.in_transaction(lifecycle.record_hosted_page, intent=intent, page=page, now=NOW)
    return done.order_ids, intent


def test_order_with_quarantined_charge_does_not_expire(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    with database.transaction() as session:
        apply(session, make_charge(opened, amount_minor=100))

    sweep(later(days=30))

    assert status(database, order_id) == "pending_payment"


def test_failing_expiry_does_not_block_other_orders(
    database: Database, gateway: TestGateway, sweep: SweepNow, shop: Shop, product_id: UUID, opened: Intent
) -> None:
    """The first order's charge cannot be applied, because the product has no reserved units left."""
    gateway.pay(opened.reference)
    reserved = text("UPDATE products SET reserved = :pieces WHERE id = :id")
    with database.transaction() as session:
        next_order_id = place(session, shop, make_product(session, shop), now=later(seconds=1))
        session.execute(reserved, {"pieces": 0, "id": product_id})

    done = sweep(later(minutes=31))

    assert done.failed == 1
    assert status(database, opened.order_ids[0]) == "pending_payment"
    assert status(database, next_order_id) == "expired"
    # Clean up: other tests share this database.
    with database.transaction() as session:
        session.execute(reserved, {"pieces": 1, "id": product_id})
    database.in_transaction(
        order_cancellation.cancel_order, order_id=opened.order_ids[0], caller=shop.buyer, reason=None, now=NOW
    )


def test_payment_of_cancelled_order_is_abandoned(
    database: Database, sweep: SweepNow, shop: Shop, order_id: UUID, opened: Intent
) -> None:
    database.in_transaction(
        order_cancellation.cancel_order, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
    )

    assert sweep(NOW).abandoned >= 1

    with database.reading() as session:
        assert row_of(session, "payment_intents", id=opened.id)["status"] == "abandoned"


def test_sweep_continues_over_several_batches(database: Database, sweep: SweepNow, shop: Shop) -> None:
    with database.transaction() as session:
        product_id = make_product(session, shop, quantity=500)
        template = place(session, shop, product_id)
        columns = (
            "buyer_id, vendor_id, campus_id, status, subtotal_minor, delivery_fee_minor, service_fee_minor,"
            " discount_minor, total_minor, delivery_method, shipping_address, expires_at"
        )
        session.execute(
            text(
                f"""
                WITH copies AS (
                    INSERT INTO orders ({columns}) SELECT {columns} FROM orders, generate_series(1, 220)
                    WHERE id = :id RETURNING id
                ), items AS (
                    INSERT INTO order_items SELECT c.id, i.position, i.product_id, i.title, i.image_key,
                        i.unit_price_minor, i.quantity, i.line_total_minor, i.commission_bps
                    FROM copies c, order_items i WHERE i.order_id = :id
                ), stock AS (UPDATE products SET reserved = 221 WHERE id = :product)
                INSERT INTO escrows (order_id, status, amount_minor)
                SELECT c.id, 'pending', e.amount_minor FROM copies c, escrows e WHERE e.order_id = :id
                """
            ),
            {"id": template, "product": product_id},
        )

    assert sweep().expired >= 221

    with database.reading() as session:
        assert stock_of(session, product_id) == (500, 0)
