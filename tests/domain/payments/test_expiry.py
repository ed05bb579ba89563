"""The sweep of abandoned checkouts: nobody's order expires before the gateway was asked."""

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
    assert_books_are_whole,
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
    """The order's intent, its page open at the gateway."""
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


def test_what_nobody_paid_expires_and_frees_its_stock(
    database: Database, sweep: SweepNow, order_id: UUID, product_id: UUID
) -> None:
    assert sweep().expired >= 1

    with database.reading() as session:
        order = row_of(session, "orders", id=order_id)
        assert (order["status"], order["expired_at"]) == ("expired", DUE)
        assert stock_of(session, product_id) == (3, 0)
        assert trail_of(session, order_id)[-1] == ("pending_payment", "expired", "expire", "system")
        assert_books_are_whole(session)


def test_unpaid_order_is_not_expired_early(database: Database, sweep: SweepNow, order_id: UUID) -> None:
    sweep(later(minutes=29, seconds=59))

    assert status(database, order_id) == "pending_payment"


def test_a_page_that_nobody_paid_on_is_given_up(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    sweep()

    assert gateway.calls(opened.reference)["GET /transaction/verify"] == 1
    with database.reading() as session:
        assert status_of(session, order_id) == "expired"
        assert row_of(session, "payment_intents", id=opened.id)["status"] == "abandoned"
        assert not row_of(session, "payment_allocations", intent_id=opened.id)["live"]


def test_a_payment_that_we_were_not_told_of_is_applied(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    gateway.pay(opened.reference)

    assert sweep().paid >= 1

    with database.reading() as session:
        assert status_of(session, order_id) == "paid_escrow"
        assert row_of(session, "payment_intents", id=opened.id)["status"] == "succeeded"
        assert_books_are_whole(session)


def test_an_attempt_that_failed_expires(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    gateway.pay(opened.reference, outcome="failed")

    sweep()

    assert status(database, order_id) == "expired"


def test_an_older_attempt_that_was_paid_after_all_counts(
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


def test_while_the_gateway_is_undecided_it_is_kept(
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
def test_while_the_gateway_does_not_answer_what_was_taken_to_it_is_kept(
    database: Database,
    gateway: TestGateway,
    sweep: SweepNow,
    shop: Shop,
    product_id: UUID,
    opened: Intent,
    fault: str,
) -> None:
    with database.transaction() as session:
        never_taken = place(session, shop, product_id)
    gateway.line.fault = fault

    done = sweep()

    assert done.gateway_down
    assert status(database, opened.order_ids[0]) == "pending_payment"
    assert status(database, never_taken) == "expired"
    # It is asked once (and once more by the client itself) about three payments at most.
    asked = Counter(call for call in gateway.line.calls if "verify" in call)
    assert asked[f"GET /gateway/transaction/verify/{opened.reference}"] in (1, 2)
    assert sum(asked.values()) <= 6

    gateway.line.fault = None
    sweep()
    assert status(database, opened.order_ids[0]) == "expired"


def test_a_reference_that_never_reached_the_gateway_expires(
    database: Database, gateway: TestGateway, sweep: SweepNow, shop: Shop, order_id: UUID
) -> None:
    with database.transaction() as session:
        intent = make_intent(session, shop, order_id)
        assert lifecycle.lease_initialization(session, intent=intent, now=NOW)

    sweep()

    assert gateway.calls(intent.reference)["GET /transaction/verify"] == 1
    assert status(database, order_id) == "expired"


def test_the_gateway_is_asked_once_about_a_checkout(
    database: Database, gateway: TestGateway, sweep: SweepNow, settings: Settings, shop: Shop
) -> None:
    order_ids, intent = opened_checkout(database, gateway, settings, shop)

    sweep()

    assert gateway.calls(intent.reference)["GET /transaction/verify"] == 1
    assert [status(database, order_id) for order_id in order_ids] == ["expired"] * 3
    with database.reading() as session:
        assert_books_are_whole(session)


def test_a_checkout_that_was_paid_untold_is_asked_about_once_and_paid_whole(
    database: Database, gateway: TestGateway, sweep: SweepNow, settings: Settings, shop: Shop
) -> None:
    order_ids, intent = opened_checkout(database, gateway, settings, shop)
    gateway.pay(intent.reference)

    sweep()

    assert gateway.calls(intent.reference)["GET /transaction/verify"] == 1
    assert [status(database, order_id) for order_id in order_ids] == ["paid_escrow"] * 3


def test_no_order_of_a_checkout_expires_while_the_gateway_does_not_answer(
    database: Database, gateway: TestGateway, sweep: SweepNow, settings: Settings, shop: Shop
) -> None:
    order_ids, intent = opened_checkout(database, gateway, settings, shop)
    gateway.line.fault = "refuse"

    assert sweep().gateway_down

    asked = [call for call in gateway.line.calls if intent.reference in call]
    # The client itself tries once more; the other orders take what came of that.
    assert 1 <= len(asked) <= 2
    assert [status(database, order_id) for order_id in order_ids] == ["pending_payment"] * 3
    gateway.line.fault = None
    sweep()
    assert [status(database, order_id) for order_id in order_ids] == ["expired"] * 3


class Clerk:
    """A gateway that answers about a payment what it is told to, or nothing, and that nobody paid the others."""

    def __init__(self, reference: str, answer: Charge | type[Exception] | None, other: Charge) -> None:
        self.reference, self.answer, self.other = reference, answer, other

    def fetch_charge(self, reference: str) -> Charge | None:
        if reference != self.reference:
            return replace(self.other, reference=reference, status="abandoned")
        if isinstance(self.answer, type):
            raise self.answer
        return self.answer


def sweep_with(database: Database, opened: Intent, answer: Charge | type[Exception] | None) -> ExpiryResult:
    clerk = Clerk(opened.reference, answer, make_charge(opened))
    return sweep_abandoned_checkouts(database, clerk, fee_bearer="platform", now=DUE)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["ongoing", "queued", "send_otp", "", "something new"])
def test_what_the_gateway_is_not_clear_about_is_kept(database: Database, opened: Intent, word: str) -> None:
    done = sweep_with(database, opened, replace(make_charge(opened), status=word))

    assert done.undecided == 1
    assert status(database, opened.order_ids[0]) == "pending_payment"
    sweep_with(database, opened, replace(make_charge(opened), status="abandoned"))
    assert status(database, opened.order_ids[0]) == "expired"


def test_an_open_page_that_the_gateway_says_it_does_not_know_is_kept(
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


def test_an_answer_that_is_missing_for_one_does_not_hold_up_the_others(
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
    """Check out with three vendors, and open the one page for it."""
    with database.transaction() as session:
        wishes = [RequestedItem(make_product(session, one), 1) for one in neighbours(session, shop, 3)]
        done = check_out(session, shop, wishes)
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


def test_what_is_held_back_is_not_expired(
    database: Database, gateway: TestGateway, sweep: SweepNow, order_id: UUID, opened: Intent
) -> None:
    with database.transaction() as session:
        apply(session, make_charge(opened, amount_minor=100))

    sweep(later(days=30))

    assert status(database, order_id) == "pending_payment"


def test_failing_expiry_does_not_block_other_orders(
    database: Database, gateway: TestGateway, sweep: SweepNow, shop: Shop, product_id: UUID, opened: Intent
) -> None:
    """What the first one reserved is not reserved any more: its charge can't be applied."""
    gateway.pay(opened.reference)
    reserved = text("UPDATE products SET reserved = :pieces WHERE id = :id")
    with database.transaction() as session:
        behind = place(session, shop, make_product(session, shop), now=later(seconds=1))
        session.execute(reserved, {"pieces": 0, "id": product_id})

    done = sweep(later(minutes=31))

    assert done.failed == 1
    assert status(database, opened.order_ids[0]) == "pending_payment"
    assert status(database, behind) == "expired"
    # Let it not be in the way of other tests.
    with database.transaction() as session:
        session.execute(reserved, {"pieces": 1, "id": product_id})
    database.in_transaction(
        order_cancellation.cancel_order, order_id=opened.order_ids[0], caller=shop.buyer, reason=None, now=NOW
    )


def test_the_payment_of_a_cancelled_order_is_given_up(
    database: Database, sweep: SweepNow, shop: Shop, order_id: UUID, opened: Intent
) -> None:
    database.in_transaction(
        order_cancellation.cancel_order, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
    )

    assert sweep(NOW).abandoned >= 1

    with database.reading() as session:
        assert row_of(session, "payment_intents", id=opened.id)["status"] == "abandoned"


def test_many_are_swept_in_batches(database: Database, sweep: SweepNow, shop: Shop) -> None:
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
