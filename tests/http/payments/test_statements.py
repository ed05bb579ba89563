"""Statements over HTTP: ledger entries of the caller as JSON pages or a CSV file."""

import csv
import io
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from blueprints.payments import routes
from marketplace.ledger import accounts, queries
from marketplace.ledger.operations import Posting, post_transaction
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, later, pin_of
from tests.support.shop_client import ShopClient

TRANSACTIONS = "/api/transactions"
COLUMNS = [
    "id",
    "transactionId",
    "account",
    "kind",
    "direction",
    "amountMinor",
    "balanceAfterMinor",
    "orderId",
    "description",
    "createdAt",
]


def make_released_order(desk: ShopClient) -> UUID:
    order_id = desk.shipped()
    answer = desk.post(f"/api/orders/{order_id}/verify-code", desk.vendor, {"pin": pin_of(order_id)})
    assert answer.status_code == 200
    return order_id


def credit(desk: ShopClient, minor: int, *, description: str = "A gift", minutes: float = 0) -> None:
    with desk.database.transaction() as session:
        post_transaction(
            session,
            kind="gift",
            source=uuid4().hex,
            description=description,
            postings=[
                Posting(accounts.GATEWAY_CLEARING, "debit", minor),
                Posting(accounts.wallet(desk.shop.buyer.id), "credit", minor),
            ],
            now=later(minutes=minutes),
        )


def as_csv(desk: ShopClient, **query: Any) -> list[list[str]]:
    answer = desk.client.get(TRANSACTIONS, headers={**desk.buyer, "Accept": "text/csv"}, query_string=query)
    assert answer.status_code == 200
    assert answer.content_type == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["Content-Disposition"]
    return list(csv.reader(io.StringIO(answer.text)))


def test_buyer_and_vendor_each_see_own_entries_of_purchase(desk: ShopClient) -> None:
    order_id = make_released_order(desk)

    bought = desk.get(TRANSACTIONS, desk.buyer).json["data"]
    sold = desk.get(TRANSACTIONS, desk.vendor).json["data"]

    assert [(entry["direction"], entry["orderId"]) for entry in bought] == [
        ("debit", str(order_id)),
        ("credit", None),
    ]
    [entry] = sold
    assert list(entry) == COLUMNS
    assert (entry["kind"], entry["direction"], entry["orderId"]) == ("release", "credit", str(order_id))
    assert entry["account"] == f"vendor_payable:{desk.shop.store_id}"
    assert entry["balanceAfterMinor"] == entry["amountMinor"]
    assert desk.get(TRANSACTIONS, desk.stranger).json["data"] == []
    assert desk.get(TRANSACTIONS, desk.officer("finance")).json["data"] == []


def test_statement_is_paginated_and_filtered(desk: ShopClient) -> None:
    for minute in range(5):
        credit(desk, minute + 1, minutes=minute)

    first = desk.get(TRANSACTIONS, desk.buyer, limit=2, kind="gift")
    cursor = first.json["meta"]["next_cursor"]
    second = desk.get(TRANSACTIONS, desk.buyer, limit=2, kind="gift", cursor=cursor)
    assert [entry["amountMinor"] for entry in first.json["data"] + second.json["data"]] == [5, 4, 3, 2]

    period = {"from": later(minutes=1).isoformat(), "to": later(minutes=3).isoformat()}
    within = desk.get(TRANSACTIONS, desk.buyer, **period).json["data"]
    assert [entry["amountMinor"] for entry in within] == [3, 2]
    assert desk.get(TRANSACTIONS, desk.buyer, kind="release").json["data"] == []
    by_time = desk.get(TRANSACTIONS, desk.buyer, limit=1, **period).json
    rest = desk.get(TRANSACTIONS, desk.buyer, limit=1, cursor=by_time["meta"]["next_cursor"], **period).json
    assert by_time["data"] + rest["data"] == within
    assert rest["meta"]["has_more"] is False
    assert faults(desk.get(TRANSACTIONS, desk.buyer, cursor=cursor)) == ["cursor"]
    assert faults(desk.get(TRANSACTIONS, desk.vendor, cursor=cursor, kind="gift")) == ["cursor"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"from": "yesterday"}, ["from"]),
        ({"from": "2026-11-20T09:30:00"}, ["from"]),
        ({"to": "2026-11-20"}, ["to"]),
        ({"kind": ""}, ["kind"]),
        ({"kind": "x" * 41}, ["kind"]),
        ({"direction": "out"}, ["direction"]),
        ({"orderId": "x"}, ["orderId"]),
        ({"format": "xml"}, ["format"]),
        ({"limit": 101}, ["limit"]),
        ({"owner": "x"}, ["owner"]),
        ({"cursor": "x"}, ["cursor"]),
    ],
    ids=repr,
)
def test_invalid_parameters_are_reported(desk: ShopClient, query: dict[str, str], named: list[str]) -> None:
    assert faults(desk.get(TRANSACTIONS, desk.buyer, **query)) == named


def test_statement_filters_by_order_and_direction(desk: ShopClient) -> None:
    order_id = str(make_released_order(desk))
    credit(desk, 5)

    def found(**query: str) -> list[tuple[str, str | None]]:
        entries = desk.get(TRANSACTIONS, desk.buyer, **query).json["data"]
        return [(entry["direction"], entry["orderId"]) for entry in entries]

    assert found(orderId=order_id) == found(direction="debit") == [("debit", order_id)]
    assert found(direction="credit") == [("credit", None), ("credit", None)]
    assert found(orderId=order_id, direction="credit") == []
    assert found(orderId=str(uuid4())) == []


def test_statement_requires_a_token(desk: ShopClient) -> None:
    assert_problem(desk.client.get(TRANSACTIONS), 401, "AUTH_UNAUTHORIZED")


class TestCsv:
    def test_statement_csv_has_the_rows_of_the_json(self, desk: ShopClient) -> None:
        order_id = make_released_order(desk)
        shown = desk.get(TRANSACTIONS, desk.buyer).json["data"]

        head, *rows = as_csv(desk)

        assert head == COLUMNS
        for row, entry in zip(rows, shown, strict=True):
            *cells, at = row
            assert cells == ["" if entry[name] is None else str(entry[name]) for name in COLUMNS[:-1]]
            assert datetime.fromisoformat(at) == datetime.fromisoformat(entry["createdAt"]) == NOW
        assert rows[0][COLUMNS.index("orderId")] == str(order_id)

    def test_statement_csv_applies_filters_and_ignores_pagination(self, desk: ShopClient) -> None:
        for minute in range(25):
            credit(desk, minute + 1, minutes=minute)

        assert len(as_csv(desk)) == 26
        assert len(as_csv(desk, limit=1)) == 26
        assert len(as_csv(desk, to=later(minutes=3).isoformat())) == 4

    @pytest.mark.parametrize(
        ("description", "cell"),
        [
            ('=HYPERLINK("http://evil","x")', '\'=HYPERLINK("http://evil","x")'),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ('a "b", c\nd', 'a "b", c\nd'),
            ("1=1", "1=1"),
        ],
        ids=repr,
    )
    def test_csv_formula_cells_are_escaped(self, desk: ShopClient, description: str, cell: str) -> None:
        credit(desk, 5, description=description)
        answer = desk.client.get(TRANSACTIONS, headers={**desk.buyer, "Accept": "text/csv"})

        [_, row] = csv.reader(io.StringIO(answer.text, newline=""))

        assert row[COLUMNS.index("description")] == cell

    @pytest.mark.parametrize(
        ("accept", "kind"),
        [
            ("text/csv", "text/csv"),
            ("text/csv, */*;q=0.1", "text/csv"),
            ("*/*", "application/json"),
            ("application/json", "application/json"),
            ("application/json, text/csv;q=0.5", "application/json"),
            ("image/png", "application/json"),
            ("", "application/json"),
        ],
    )
    def test_statement_csv_is_negotiated(self, desk: ShopClient, accept: str, kind: str) -> None:
        answer = desk.client.get(TRANSACTIONS, headers={**desk.buyer, "Accept": accept})

        assert answer.mimetype == kind

    def test_statement_csv_may_be_requested_by_query(self, desk: ShopClient) -> None:
        credit(desk, 5)
        both = {**desk.buyer, "Accept": "text/csv"}

        assert desk.get(TRANSACTIONS, desk.buyer, format="csv").mimetype == "text/csv"
        assert desk.get(TRANSACTIONS, both, format="json").mimetype == "application/json"

    def test_statement_csv_has_a_row_limit(self, desk: ShopClient, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(routes, "MAX_CSV_ROWS", 3)
        for minor in range(1, 6):
            credit(desk, minor)

        assert [row[COLUMNS.index("amountMinor")] for row in as_csv(desk)[1:]] == ["5", "4", "3"]
        assert desk.get(TRANSACTIONS, desk.buyer, format="csv").headers["X-Truncated"] == "true"
        monkeypatch.setattr(routes, "MAX_CSV_ROWS", 5)
        assert "X-Truncated" not in desk.get(TRANSACTIONS, desk.buyer, format="csv").headers

    def test_statement_csv_is_read_in_batches(
        self, desk: ShopClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(queries, "EXPORT_BATCH_SIZE", 2)
        for minute in range(7):
            credit(desk, minute + 1, minutes=minute)

        def minors(**query: str) -> list[str]:
            return [row[COLUMNS.index("amountMinor")] for row in as_csv(desk, **query)[1:]]

        assert minors() == minors(kind="gift") == ["7", "6", "5", "4", "3", "2", "1"]
        assert minors(to=later(minutes=5).isoformat()) == ["5", "4", "3", "2", "1"]
