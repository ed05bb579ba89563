"""Orders in each status, made by the domain's own operations at past times. Ledger and events are consistent."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import requests
from sqlalchemy import select
from sqlalchemy.orm import Session

from commands.seeding.loading import ProgressCallback, load_data
from commands.seeding.people import STORES, STUDENTS, student_id
from commands.seeding.products import DEMO_PRODUCTS, build_product
from marketplace.audit.operations import Act
from marketplace.cart.operations import RequestedItem
from marketplace.identity.queries import Caller, find_caller
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.orders import operations, states
from marketplace.orders.deadlines import PAYMENT_WINDOW
from marketplace.orders.models import Order
from marketplace.orders.pin import delivery_pin
from marketplace.orders.placing.place_order import Delivery, OrderRequest, place_order
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.intents import lifecycle as payments
from marketplace.payments.intents.lifecycle import PaymentTarget
from marketplace.payments.intents.payment_methods import open_hosted_page
from marketplace.payments.refunds import order_cancellation
from marketplace.payments.refunds.admin_refund import RefundRequest, process_refund
from marketplace.providers.gateway.payments import PaymentGateway, customer_email
from marketplace.services import Services
from sandbox.personas import persona_named


@dataclass(frozen=True)
class OrderScenario:
    """An order of the demo: buyer, product, age and final status.

    ``store`` and ``product`` count from 1. ``days``, ``hours`` and ``minutes`` add up to the order's age.
    """

    buyer: str
    store: int
    product: int
    status: str
    days: int = 0
    hours: int = 0
    minutes: int = 0
    quantity: int = 1
    pickup: bool = False

    @property
    def buyer_id(self) -> UUID:
        """The id of the buyer, a persona or a student."""
        return _BUYER_IDS[self.buyer]

    @property
    def product_id(self) -> UUID:
        """The id of the bought product."""
        store = STORES[self.store - 1]
        products = [item for item in map(build_product, range(1, DEMO_PRODUCTS + 1)) if item.store is store]
        return products[self.product - 1].id


# The position of a buyer is also the number of the buyer's address.
_BUYER_IDS = {name: persona_named(name).user_id for name in ("buyer", "buyer2")} | {
    f"student{number}": student_id(number) for number in range(1, STUDENTS + 1)
}
# Sorted by time, because ids and order numbers grow with time. The last order is unpaid, so that it exists even
# without a gateway. Only the buyer persona has an unpaid order, because unpaid orders are limited.
ORDER_SCENARIOS = load_data("orders", tuple[OrderScenario, ...])
_PAID_STATUSES = (states.PAID_ESCROW, states.PROCESSING, states.SHIPPED, states.DELIVERED, states.REFUNDED)
# Source status, target status, final statuses of scenarios that take the step, and time since the order was placed.
_STEPS = (
    (states.PENDING_PAYMENT, states.CANCELLED, (states.CANCELLED,), timedelta(minutes=10)),
    (states.PENDING_PAYMENT, states.EXPIRED, (states.EXPIRED,), PAYMENT_WINDOW + timedelta(minutes=1)),
    (states.PAID_ESCROW, states.PROCESSING, _PAID_STATUSES[1:4], timedelta(minutes=40)),
    (states.PROCESSING, states.SHIPPED, _PAID_STATUSES[2:4], timedelta(hours=5)),
    (states.SHIPPED, states.DELIVERED, _PAID_STATUSES[3:4], timedelta(hours=24)),
    (states.PAID_ESCROW, states.REFUNDED, (states.REFUNDED,), timedelta(hours=24)),
)


class SandboxCheckout:
    """Payments at the sandbox gateway, so that gateway and ledger agree."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._session = requests.Session()
        self._session.trust_env = False

    def wait_until_ready(self) -> bool:
        """Wait for the sandbox gateway to start, and return whether the gateway is the sandbox."""
        address = self._services.settings.gateway_url
        deadline = time.monotonic() + 15.0
        while address and time.monotonic() < deadline:
            try:
                response = self._session.get(
                    f"{address}/sandbox/calls", params={"reference": "seed"}, timeout=2.0
                )
            except requests.RequestException:
                time.sleep(0.25)
            else:
                return response.status_code == 200
        return False

    def pay(self, *, buyer: Caller, order_id: UUID, channel: str, now: datetime) -> None:
        """Pay an order in the name of the buyer, and apply the payment.

        :param now: time of the payment in the ledger. The gateway uses its own clock
        :raises ProviderUnavailableError: the gateway does not answer correctly
        """
        services = self._services
        gateway: PaymentGateway = services.gateway
        intent, page = open_hosted_page(
            services.database,
            gateway,
            buyer_id=buyer.id,
            email=customer_email(buyer.email, buyer.id),
            target=PaymentTarget(order_id=order_id),
            callback_url=None,
            clock=lambda: now,
        )
        services.database.in_transaction(payments.record_hosted_page, intent=intent, page=page, now=now)
        try:
            self._session.post(
                f"{services.settings.gateway_url}/sandbox/pay/{intent.reference}",
                json={"channel": channel},
                timeout=10.0,
            ).raise_for_status()
        except requests.RequestException as error:
            raise ProviderUnavailableError(
                "The sandbox gateway did not accept a payment. Repeat the command to continue from here."
            ) from error
        charge = gateway.fetch_charge(intent.reference)
        if charge is not None and charge.paid_at is not None:
            charge = replace(charge, paid_at=now)
        services.database.in_transaction(
            payments.apply_reported_charge,
            reference=intent.reference,
            charge=charge,
            fee_bearer=services.settings.gateway_fee_bearer,
            now=now,
        )


def has_all_scenarios(session: Session) -> bool:
    """Return whether the last scenario has been played. Scenarios with paid orders may be missing."""
    return _find_order(session, len(ORDER_SCENARIOS)) is not None


def create_orders(
    services: Services, *, checkout: SandboxCheckout | None, now: datetime, progress: ProgressCallback
) -> int:
    """Play the scenarios, continuing an interrupted run.

    :param checkout: payments; without payments, scenarios with a paid order are left out
    :param now: present time, from which the scenarios' times are calculated
    :param progress: called after each scenario
    :return: number of placed orders
    """
    placed = 0
    for number, scenario in enumerate(ORDER_SCENARIOS, 1):
        if scenario.status not in _PAID_STATUSES or checkout is not None:
            placed += _create_order(services, scenario, number=number, checkout=checkout, now=now)
        progress(1)
    return placed


def _create_order(
    services: Services,
    scenario: OrderScenario,
    *,
    number: int,
    checkout: SandboxCheckout | None,
    now: datetime,
) -> bool:
    database = services.database
    at = now - timedelta(days=scenario.days, hours=scenario.hours, minutes=scenario.minutes)
    with database.reading() as session:
        buyer = get_caller(session, scenario.buyer_id)
        vendor = get_caller(session, STORES[scenario.store - 1].user_id)
        existing_order = _find_order(session, number)
    order = existing_order or database.in_transaction(_place_scenario_order, scenario, number, buyer, at)
    status = order["status"]
    if status == states.PENDING_PAYMENT and scenario.status in _PAID_STATUSES and checkout is not None:
        checkout.pay(
            buyer=buyer,
            order_id=order["id"],
            channel=("card", "bank_transfer", "ussd")[(number - 1) % 3],
            now=at + timedelta(minutes=4),
        )
        status = states.PAID_ESCROW
    key = services.settings.delivery_pin_key
    pin = delivery_pin(key=key, order_id=order["id"], counter=order["pin_counter"])
    for source, target, final_statuses, after in _STEPS:
        if status == source and scenario.status in final_statuses:
            database.in_transaction(
                _advance_order,
                target=target,
                order_id=order["id"],
                buyer=buyer,
                vendor=vendor,
                pin=pin,
                key=key,
                now=at + after,
            )
            status = target
    return existing_order is None


def _find_order(session: Session, number: int) -> dict[str, Any] | None:
    order = session.execute(
        select(Order.id, Order.status, Order.pin_counter).where(
            Order.id == seeded_id(SeededKind.ORDER, number)
        )
    ).one_or_none()
    return order._asdict() if order else None


def get_caller(session: Session, user_id: UUID) -> Caller:
    """Return a seeded person as caller.

    :raises LookupError: the person does not exist
    """
    caller = find_caller(session, user_id=user_id, aal="aal1", now=datetime.now(UTC))
    if caller is None:
        raise LookupError(f"the seeded person {user_id} does not exist")
    return caller


def _place_scenario_order(
    session: Session, scenario: OrderScenario, number: int, buyer: Caller, at: datetime
) -> dict[str, Any]:
    if scenario.pickup:
        delivery = Delivery(method="pickup", hub_id=seeded_id(SeededKind.HUB, 1))
    else:
        address_number = list(_BUYER_IDS).index(scenario.buyer) + 1
        delivery = Delivery(method="delivery", address_id=seeded_id(SeededKind.ADDRESS, address_number))
    items = [RequestedItem(scenario.product_id, scenario.quantity)]
    request = OrderRequest(buyer, items, delivery)
    place_order(session, request=request, now=at, order_id=seeded_id(SeededKind.ORDER, number))
    return _find_order(session, number) or {}


def _advance_order(
    session: Session,
    *,
    target: str,
    order_id: UUID,
    buyer: Caller,
    vendor: Caller,
    pin: str,
    key: str,
    now: datetime,
) -> None:
    """Advance an order to the next status, in the name of the person responsible for that step."""
    match target:
        case states.CANCELLED:
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=buyer, reason="Found it in my hall", now=now
            )
        case states.EXPIRED:
            order = lock_order(session, order_id=order_id)
            operations.expire_order(session, order=order, actor=SYSTEM, now=now)
        case states.PROCESSING:
            operations.accept_order(session, order_id=order_id, caller=vendor, now=now)
        case states.SHIPPED:
            note = "With our rider, on a red bicycle"
            operations.ship_order(session, order_id=order_id, caller=vendor, tracking_note=note, now=now)
        case states.DELIVERED:
            operations.release_on_pin(
                session, order_id=order_id, caller=vendor, pin=pin, pin_key=key, now=now
            )
        case states.REFUNDED:
            refund = RefundRequest("wallet", "The store can no longer deliver the perfume.")
            act = Act("finance", now, user_id=persona_named("finance").user_id)
            process_refund(session, order_id=order_id, act=act, refund_request=refund)
