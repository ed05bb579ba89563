"""Statements: ledger entries of a user by page, period and kind."""

from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from marketplace.kernel.paging import PageRequest
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.ledger.queries import EntryFilter, fetch_statement_page
from tests.support.purchases import NOW, Shop, later, paid_order, release, shipped_order


def credit(session: Session, owner: UUID, minor: int, *, now: datetime = NOW, kind: str = "gift") -> None:
    post_transaction(
        session,
        kind=kind,
        source=uuid4().hex,
        description="Of a test",
        postings=[
            Posting(accounts.GATEWAY_CLEARING, "debit", minor),
            Posting(accounts.wallet(owner), "credit", minor),
        ],
        now=now,
    )


def amounts(
    session: Session, owner: UUID, *, limit: int = 100, **wanted: datetime | str
) -> list[tuple[str, int, int]]:
    page = fetch_statement_page(
        session,
        owners=[owner],
        entry_filter=EntryFilter(**wanted),
        page=PageRequest(limit),  # type: ignore[arg-type]
    )
    return [(entry.direction, entry.amount_minor, entry.balance_after_minor) for entry in page.items]


def test_buyer_statement_shows_charge_and_payment_to_escrow(session: Session, shop: Shop) -> None:
    order_id = paid_order(session, shop)

    [spent, received] = fetch_statement_page(
        session, owners=[shop.buyer.id], entry_filter=EntryFilter(), page=PageRequest(10)
    ).items

    assert received.direction == "credit"
    assert received.order_id is None
    assert {
        name: getattr(spent, name) for name in ("account", "kind", "direction", "order_id", "created_at")
    } == {
        "account": f"wallet:{shop.buyer.id}",
        "kind": "payment",
        "direction": "debit",
        "order_id": order_id,
        "created_at": NOW,
    }
    assert (spent.amount_minor, spent.balance_after_minor) == (received.amount_minor, 0)
    assert spent.transaction_id == received.transaction_id
    assert spent.description.startswith("Payment for CM-")


def test_vendor_statement_shows_released_amount(session: Session, shop: Shop) -> None:
    order_id = shipped_order(session, shop)
    release(session, shop, order_id)

    [entry] = fetch_statement_page(
        session, owners=[shop.vendor.id, shop.store_id], entry_filter=EntryFilter(), page=PageRequest(10)
    ).items

    assert (entry.account, entry.kind) == (f"vendor_payable:{shop.store_id}", "release")
    assert (entry.direction, entry.order_id) == ("credit", order_id)


def test_statement_excludes_other_users_and_platform_accounts(session: Session, shop: Shop) -> None:
    paid_order(session, shop)

    assert amounts(session, uuid4()) == []
    assert len(amounts(session, shop.buyer.id)) == 2


def test_running_balance_follows_each_entry(session: Session) -> None:
    owner = uuid4()
    for minor in (5, 7, 11):
        credit(session, owner, minor)

    assert amounts(session, owner) == [("credit", 11, 23), ("credit", 7, 12), ("credit", 5, 5)]


def test_period_includes_start_and_excludes_end(session: Session) -> None:
    owner = uuid4()
    for minute in range(4):
        credit(session, owner, minute + 1, now=later(minutes=minute))

    def minors(**wanted: datetime) -> list[int]:
        return [minor for _, minor, _ in amounts(session, owner, **wanted)]

    assert minors(starts=later(minutes=1), ends=later(minutes=3)) == [3, 2]
    assert minors(starts=later(minutes=3)) == [4]
    assert minors(ends=NOW) == []
    assert minors(starts=later(minutes=3), ends=later(minutes=1)) == []


def test_statement_filters_by_kind(session: Session) -> None:
    owner = uuid4()
    credit(session, owner, 5, kind="gift")
    credit(session, owner, 7, kind="prize")

    assert [minor for _, minor, _ in amounts(session, owner, kind="prize")] == [7]
    assert amounts(session, owner, kind="none") == []


def test_pages_have_no_gap_or_overlap_while_entries_are_added(session: Session) -> None:
    owner = uuid4()
    for minor in range(1, 8):
        credit(session, owner, minor)

    seen: list[int] = []
    position = None
    for _ in range(10):
        page = fetch_statement_page(
            session, owners=[owner], entry_filter=EntryFilter(), page=PageRequest(3, position)
        )
        seen += [entry.amount_minor for entry in page.items]
        position = page.next_position
        credit(session, owner, 100)
        if position is None:
            break

    assert seen == [7, 6, 5, 4, 3, 2, 1]
