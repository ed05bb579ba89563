"""Purchases for tests: a shop, a buyer, and each step from placing to release by domain functions."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.cart.models import CartItem
from marketplace.cart.operations import RequestedItem
from marketplace.catalog.models import Category, Product
from marketplace.identity.models import Profile
from marketplace.identity.queries import Caller
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.ledger.queries import fetch_balance, fetch_balances_by_kind
from marketplace.models import metadata
from marketplace.orders import operations as orders
from marketplace.orders.pin import delivery_pin
from marketplace.orders.placing.place_order import NO_WALLET, Delivery, OrderRequest, WalletUse, place_order
from marketplace.payments.charges.apply import ChargeOutcome, apply_charge
from marketplace.payments.intents import lifecycle as payments
from marketplace.payments.intents.lifecycle import CheckoutResult, Intent, PaymentTarget
from marketplace.platform.models import Campus
from marketplace.providers.gateway.payloads import Charge
from marketplace.reconciliation.ledger_check import verify_ledger
from marketplace.vendors.models import VendorProfile

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
PIN_KEY = "of-these-tests-only-0123456789abcdef"
ADDRESS = {"hostel": "Moremi Hall", "roomNumber": "B12"}
DELIVERY = Delivery("delivery", address=ADDRESS)
DELIVERY_FEE_MINOR = 50_000
SERVICE_FEE_MINOR = 10_000
COMMISSION_BPS = 500
PRICE_MINOR = 250_050

_charge_ids = count(uuid4().int % 10**9 * 10**4)


@dataclass(frozen=True)
class Shop:
    """A campus with a store, the vendor, a category and a buyer."""

    campus_id: UUID
    category_id: UUID
    store_id: UUID
    vendor: Caller
    buyer: Caller


def make_person(session: Session, *, role: str = "buyer", staff_role: str | None = None) -> Caller:
    """Create a user profile."""
    user_id = uuid4()
    session.add(Profile(id=user_id, role=role, staff_role=staff_role, name=role.title()))
    session.flush()
    return Caller(
        id=user_id,
        email=None,
        role=role,
        staff_role=staff_role,
        permissions=frozenset(),
        account_status="active",
        campus_id=None,
        aal="aal1",
    )


def make_store(session: Session, *, campus_id: UUID, **values: Any) -> tuple[UUID, Caller]:
    """Create a vendor with a store, and return the store's id and the vendor."""
    vendor = make_person(session, role="vendor")
    given = {"display_name": "Ngozi's Lamps", "slug": f"lamps-{vendor.id.hex[:12]}"} | values
    store = VendorProfile(user_id=vendor.id, campus_id=campus_id, **given)
    session.add(store)
    session.flush()
    return store.id, vendor


def make_campus(session: Session) -> UUID:
    """Create a campus."""
    campus = Campus(name="North", slug=f"north-{uuid4().hex[:12]}")
    session.add(campus)
    session.flush()
    return campus.id


def make_category(session: Session, *, commission_bps: int | None = None, below: UUID | None = None) -> UUID:
    """Create a category. Without a commission the parent's or the platform's commission applies."""
    category_id = uuid4()
    above = row_of(session, "categories", id=below)["lineage"] if below else []
    session.add(
        Category(
            id=category_id,
            parent_id=below,
            name="Lamps",
            slug=f"lamps-{category_id.hex[:12]}",
            lineage=[*above, category_id],
            commission_bps=commission_bps,
        )
    )
    session.flush()
    return category_id


def make_shop(session: Session, *, commission_bps: int | None = None, **store: Any) -> Shop:
    """Create a shop. ``store`` contains columns of the vendor profile."""
    campus_id = make_campus(session)
    store_id, vendor = make_store(session, campus_id=campus_id, **store)
    return Shop(
        campus_id=campus_id,
        category_id=make_category(session, commission_bps=commission_bps),
        store_id=store_id,
        vendor=vendor,
        buyer=make_person(session),
    )


def with_buyer(session: Session, shop: Shop) -> Shop:
    """Return the same shop with another buyer."""
    return replace(shop, buyer=make_person(session))


def make_product(
    session: Session,
    shop: Shop,
    *,
    price_minor: int = PRICE_MINOR,
    quantity: int = 5,
    status: str = "published",
    **values: Any,
) -> UUID:
    """Create a product of a shop."""
    product = Product(
        vendor_id=shop.store_id,
        campus_id=shop.campus_id,
        category_id=shop.category_id,
        title="Reading lamp",
        price_minor=price_minor,
        condition="new",
        quantity=quantity,
        status=status,
        published_at=NOW if status == "published" else None,
        **values,
    )
    session.add(product)
    session.flush()
    return product.id


def place(
    session: Session,
    shop: Shop,
    product_id: UUID | None = None,
    *,
    quantity: int = 1,
    wishes: list[RequestedItem] | None = None,
    delivery: Delivery = DELIVERY,
    expected_total_minor: int | None = None,
    wallet: WalletUse = NO_WALLET,
    now: datetime = NOW,
) -> UUID:
    """Place an order of a product or of requested items."""
    wanted = [RequestedItem(product_id, quantity)] if product_id else wishes
    asked = OrderRequest(
        shop.buyer, wanted, delivery, expected_total_minor=expected_total_minor, wallet=wallet
    )
    return place_order(session, request=asked, now=now)


def check_out(
    session: Session,
    shop: Shop,
    wishes: list[RequestedItem] | None = None,
    *,
    wallet: WalletUse = NO_WALLET,
    now: datetime = NOW,
    **more: Any,
) -> CheckoutResult:
    """Check out requested items, or the cart."""
    asked = OrderRequest(shop.buyer, wishes, more.pop("delivery", DELIVERY), wallet=wallet, **more)
    return payments.check_out(session, placement=asked, now=now)


def neighbours(session: Session, shop: Shop, count: int) -> list[Shop]:
    """Return a shop and other shops of the same campus and buyer."""
    shops = [shop]
    for _ in range(count - 1):
        store_id, vendor = make_store(session, campus_id=shop.campus_id)
        shops.append(replace(shop, store_id=store_id, vendor=vendor))
    return shops


def put_into_cart(session: Session, user_id: UUID, *lines: tuple[UUID, int]) -> None:
    """Put products and quantities into a user's cart."""
    for position, (product_id, quantity) in enumerate(lines):
        session.add(
            CartItem(
                user_id=user_id,
                product_id=product_id,
                quantity=quantity,
                price_minor_seen=1,
                position=position,
            )
        )
    session.flush()


def cart_of(session: Session, user_id: UUID) -> dict[UUID, int]:
    """Return the units in a user's cart by product."""
    rows = session.execute(
        text("SELECT product_id, quantity FROM cart_items WHERE user_id = :id"), {"id": user_id}
    )
    return dict(tuple(row) for row in rows)


def fill_wallet(session: Session, user_id: UUID, amount_minor: int) -> None:
    """Credit a user's wallet."""
    post_transaction(
        session,
        kind="reward",
        source=f"test:{uuid4()}",
        description="Deposit",
        postings=[
            Posting(accounts.GATEWAY_CLEARING, "debit", amount_minor),
            Posting(accounts.wallet(user_id), "credit", amount_minor),
        ],
        now=NOW,
    )


def wallet_of(session: Session, user_id: UUID) -> int:
    """Return a user's wallet balance in kobo."""
    return fetch_balance(session, account=accounts.wallet(user_id))


def make_intent(session: Session, shop: Shop, order_id: UUID, *, now: datetime = NOW) -> Intent:
    """Create or find an order's live payment intent."""
    return payments.get_or_create_intent(
        session, buyer_id=shop.buyer.id, target=PaymentTarget(order_id=order_id), callback_url=None, now=now
    )


def make_charge(intent: Intent, *, amount_minor: int | None = None, **values: Any) -> Charge:
    """Build a settled charge of an intent as reported by the gateway, with a unique id."""
    given: dict[str, Any] = {
        "id": str(next(_charge_ids)),
        "reference": intent.reference,
        "status": "success",
        "amount_minor": intent.amount_minor if amount_minor is None else amount_minor,
        "fees_minor": 0,
        "currency": "NGN",
        "channel": "card",
        "paid_at": NOW,
    }
    return Charge(**given | values)


def apply(
    session: Session, charge: Charge, *, fee_bearer: str = "platform", now: datetime = NOW
) -> ChargeOutcome:
    """Apply a charge."""
    return apply_charge(session, charge=charge, fee_bearer=fee_bearer, now=now)


def pay(session: Session, shop: Shop, order_id: UUID, **charge: Any) -> Charge:
    """Pay an order with a charge, by default of the due amount."""
    settled = make_charge(make_intent(session, shop, order_id), **charge)
    apply(session, settled)
    return settled


def paid_order(session: Session, shop: Shop, *, quantity: int = 1, stock: int = 5) -> UUID:
    """Create a paid order."""
    order_id = place(session, shop, make_product(session, shop, quantity=stock), quantity=quantity)
    pay(session, shop, order_id)
    return order_id


def shipped_order(session: Session, shop: Shop, **order: Any) -> UUID:
    """Create a shipped order."""
    order_id = paid_order(session, shop, **order)
    orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
    orders.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)
    return order_id


def pin_of(order_id: UUID) -> str:
    """Return an order's PIN as shown to the buyer."""
    return delivery_pin(key=PIN_KEY, order_id=order_id, counter=0)


def wrong_pin_of(order_id: UUID, *, step: int = 1) -> str:
    """Return a PIN that differs from the order's PIN."""
    return f"{(int(pin_of(order_id)) + step) % 10**6:06d}"


def release(
    session: Session, shop: Shop, order_id: UUID, pin: str | None = None, *, now: datetime = NOW
) -> None:
    """Submit a PIN as the vendor, by default the right PIN."""
    orders.release_on_pin(
        session,
        order_id=order_id,
        caller=shop.vendor,
        pin=pin_of(order_id) if pin is None else pin,
        pin_key=PIN_KEY,
        now=now,
    )


def row_of(session: Session, table: str, **key: Any) -> dict[str, Any]:
    """Return the only row of a table with these values."""
    found = session.execute(select(metadata.tables[table]).filter_by(**key)).mappings().all()
    assert len(found) == 1, f"{len(found)} rows of {table} with {key}"
    return dict(found[0])


def status_of(session: Session, order_id: UUID) -> str:
    """Return an order's status."""
    status: str = row_of(session, "orders", id=order_id)["status"]
    return status


def stock_of(session: Session, product_id: UUID) -> tuple[int, int]:
    """Return a product's quantity and reserved units."""
    row = row_of(session, "products", id=product_id)
    return row["quantity"], row["reserved"]


def balances_of_order(session: Session, order_id: UUID) -> dict[str, int]:
    """Sum an order's entries by kind of account, on each kind's normal side. Omit zero sums."""
    rows = session.execute(
        text(
            """
            SELECT a.kind, sum(CASE WHEN e.direction = a.normal_side THEN e.amount_minor ELSE -e.amount_minor END)
            FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
            WHERE e.order_id = :order_id GROUP BY a.kind
            """
        ),
        {"order_id": order_id},
    )
    return {kind: int(minor) for kind, minor in rows if minor}


def trail_of(session: Session, order_id: UUID) -> list[tuple[str | None, str, str, str]]:
    """List an order's transitions: from, to, trigger and actor of each step."""
    rows = session.execute(
        text(
            "SELECT from_status, to_status, trigger, actor FROM order_events WHERE order_id = :id ORDER BY id"
        ),
        {"id": order_id},
    )
    return [tuple(row) for row in rows]


def assert_ledger_is_consistent(session: Session) -> None:
    """Assert the ledger invariants: no violation, and assets plus costs equal liabilities plus income."""
    found = verify_ledger(session)
    assert found == [], [(v.rule, v.rows[:3]) for v in found]
    balances = fetch_balances_by_kind(session)
    debits = {kind for kind, side in accounts.NORMAL_SIDES.items() if side == "debit"}
    left = sum(minor for kind, minor in balances.items() if kind in debits)
    assert left == sum(minor for kind, minor in balances.items() if kind not in debits), balances
    torn = session.execute(
        text(
            """
            SELECT p.id, p.reserved FROM products p
            JOIN order_items i ON i.product_id = p.id JOIN orders o ON o.id = i.order_id
            GROUP BY p.id
            HAVING p.reserved <> coalesce(sum(i.quantity) FILTER (WHERE o.status = 'pending_payment'), 0)
            """
        )
    ).all()
    assert torn == [], "what is reserved of a product is not what unpaid orders hold"
    torn = session.execute(
        text(
            """
            SELECT f.id FROM flash_sales f
            LEFT JOIN order_items i ON i.flash_sale_id = f.id LEFT JOIN orders o ON o.id = i.order_id
            GROUP BY f.id
            HAVING f.sold <> coalesce(sum(i.quantity) FILTER (
                WHERE o.paid_at IS NOT NULL OR o.status NOT IN ('cancelled', 'expired')), 0)
            UNION ALL
            SELECT p.id FROM products p JOIN flash_sales f ON f.id = p.sale_id
            WHERE (p.id, p.sale_price_minor, p.sale_starts_at, p.sale_ends_at, p.sale_left) IS DISTINCT FROM
                (f.product_id, f.sale_price_minor, f.starts_at, f.over_at, f.quantity - f.sold)
            """
        )
    ).all()
    assert torn == [], "a flash sale has not sold what orders claimed, or its product says otherwise"


def later(**delta: float) -> datetime:
    """Return a time after NOW."""
    return NOW + timedelta(**delta)
