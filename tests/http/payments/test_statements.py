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


def make_released_order(shop_client: ShopClient) -> UUID:
    order_id = shop_client.shipped()
    answer = shop_client.post(
        f"/api/orders/{order_id}/verify-code", shop_client.vendor, {"pin": pin_of(order_id)}
    )
    assert answer.status_code == 200
    return order_id


def credit(shop_client: ShopClient, minor: int, *, description: str = "A gift", minutes: float = 0) -> None:
    with shop_client.database.transaction() as session:
        post_transaction(
            session,
            kind="reward",
            source=uuid4().hex,
            description=description,
            postings=[
                Posting(accounts.GATEWAY_CLEARING, "debit", minor),
                Posting(accounts.wallet(shop_client.shop.buyer.id), "credit", minor),
            ],
            now=later(minutes=minutes),
        )


def as_csv(shop_client: ShopClient, **query: Any) -> list[list[str]]:
    answer = shop_client.client.get(
        TRANSACTIONS, headers={**shop_client.buyer, "Accept": "text/csv"}, query_string=query
    )
    assert answer.status_code == 200
    assert answer.content_type == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["Content-Disposition"]
    return list(csv.reader(io.StringIO(answer.text)))


def test_buyer_and_vendor_each_see_own_entries_of_purchase(shop_client: ShopClient) -> None:
    order_id = make_released_order(shop_client)

    bought = shop_client.get(TRANSACTIONS, shop_client.buyer).json["data"]
    sold = shop_client.get(TRANSACTIONS, shop_client.vendor).json["data"]

    assert [(entry["direction"], entry["orderId"]) for entry in bought] == [
        ("debit", str(order_id)),
        ("credit", None),
    ]
    [entry] = sold
    assert list(entry) == COLUMNS
    assert (entry["kind"], entry["direction"], entry["orderId"]) == ("release", "credit", str(order_id))
    assert entry["account"] == f"vendor_payable:{shop_client.shop.store_id}"
    assert entry["balanceAfterMinor"] == entry["amountMinor"]
    assert shop_client.get(TRANSACTIONS, shop_client.stranger).json["data"] == []
    assert shop_client.get(TRANSACTIONS, shop_client.officer("finance")).json["data"] == []


def test_statement_is_paginated_and_filtered(shop_client: ShopClient) -> None:
    for minute in range(5):
        credit(shop_client, minute + 1, minutes=minute)

    first = shop_client.get(TRANSACTIONS, shop_client.buyer, limit=2, kind="reward")
    cursor = first.json["meta"]["next_cursor"]
    second = shop_client.get(TRANSACTIONS, shop_client.buyer, limit=2, kind="reward", cursor=cursor)
    assert [entry["amountMinor"] for entry in first.json["data"] + second.json["data"]] == [5, 4, 3, 2]

    period = {"from": later(minutes=1).isoformat(), "to": later(minutes=3).isoformat()}
    within = shop_client.get(TRANSACTIONS, shop_client.buyer, **period).json["data"]
    assert [entry["amountMinor"] for entry in within] == [3, 2]
    assert shop_client.get(TRANSACTIONS, shop_client.buyer, kind="release").json["data"] == []
    by_time = shop_client.get(TRANSACTIONS, shop_client.buyer, limit=1, **period).json
    rest = shop_client.get(
        TRANSACTIONS, shop_client.buyer, limit=1, cursor=by_time["meta"]["next_cursor"], **period
    ).json
    assert by_time["data"] + rest["data"] == within
    assert rest["meta"]["has_more"] is False
    assert faults(shop_client.get(TRANSACTIONS, shop_client.buyer, cursor=cursor)) == ["cursor"]
    assert faults(shop_client.get(TRANSACTIONS, shop_client.vendor, cursor=cursor, kind="reward")) == [
        "cursor"
    ]


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
def test_invalid_parameters_are_reported(
    shop_client: ShopClient, query: dict[str, str], named: list[str]
) -> None:
    assert faults(shop_client.get(TRANSACTIONS, shop_client.buyer, **query)) == named


def test_statement_filters_by_order_and_direction(shop_client: ShopClient) -> None:
    order_id = str(make_released_order(shop_client))
    credit(shop_client, 5)

    def found(**query: str) -> list[tuple[str, str | None]]:
        entries = shop_client.get(TRANSACTIONS, shop_client.buyer, **query).json["data"]
        return [(entry["direction"], entry["orderId"]) for entry in entries]

    assert found(orderId=order_id) == found(direction="debit") == [("debit", order_id)]
    assert found(direction="credit") == [("credit", None), ("credit", None)]
    assert found(orderId=order_id, direction="credit") == []
    assert found(orderId=str(uuid4())) == []


def test_statement_requires_a_token(shop_client: ShopClient) -> None:
    assert_problem(shop_client.client.get(TRANSACTIONS), 401, "AUTH_UNAUTHORIZED")


class TestCsv:
    def test_statement_csv_has_the_rows_of_the_json(self, shop_client: ShopClient) -> None:
        order_id = make_released_order(shop_client)
        shown = shop_client.get(TRANSACTIONS, shop_client.buyer).json["data"]

        head, *rows = as_csv(shop_client)

        assert head == COLUMNS
        for row, entry in zip(rows, shown, strict=True):
            *cells, at = row
            assert cells == ["" if entry[name] is None else str(entry[name]) for name in COLUMNS[:-1]]
            assert datetime.fromisoformat(at) == datetime.fromisoformat(entry["createdAt"]) == NOW
        assert rows[0][COLUMNS.index("orderId")] == str(order_id)

    def test_statement_csv_applies_filters_and_ignores_pagination(self, shop_client: ShopClient) -> None:
        for minute in range(25):
            credit(shop_client, minute + 1, minutes=minute)

        assert len(as_csv(shop_client)) == 26
        assert len(as_csv(shop_client, limit=1)) == 26
        assert len(as_csv(shop_client, to=later(minutes=3).isoformat())) == 4

    @pytest.mark.parametrize(
        ("description", "cell"),
        [
            ('=HYPERLINK("http://evil","x")', '\'=HYPERLINK("http://evil","x")'),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\uff1d1", "'\uff1d1"),
            ("\uff0b1", "'\uff0b1"),
            ("\uff0d1", "'\uff0d1"),
            ("\uff20SUM(A1)", "'\uff20SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ('a "b", c\nd', 'a "b", c\nd'),
            ("1=1", "1=1"),
        ],
        ids=repr,
    )
    def test_csv_formula_cells_are_escaped(
        self, shop_client: ShopClient, description: str, cell: str
    ) -> None:
        credit(shop_client, 5, description=description)
        answer = shop_client.client.get(TRANSACTIONS, headers={**shop_client.buyer, "Accept": "text/csv"})

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
    def test_statement_csv_is_negotiated(self, shop_client: ShopClient, accept: str, kind: str) -> None:
        answer = shop_client.client.get(TRANSACTIONS, headers={**shop_client.buyer, "Accept": accept})

        assert answer.mimetype == kind

    def test_statement_csv_may_be_requested_by_query(self, shop_client: ShopClient) -> None:
        credit(shop_client, 5)
        both = {**shop_client.buyer, "Accept": "text/csv"}

        assert shop_client.get(TRANSACTIONS, shop_client.buyer, format="csv").mimetype == "text/csv"
        assert shop_client.get(TRANSACTIONS, both, format="json").mimetype == "application/json"

    def test_statement_csv_has_a_row_limit(
        self, shop_client: ShopClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(routes, "MAX_CSV_ROWS", 3)
        for minor in range(1, 6):
            credit(shop_client, minor)

        assert [row[COLUMNS.index("amountMinor")] for row in as_csv(shop_client)[1:]] == ["5", "4", "3"]
        assert shop_client.get(TRANSACTIONS, shop_client.buyer, format="csv").headers["X-Truncated"] == "true"
        monkeypatch.setattr(routes, "MAX_CSV_ROWS", 5)
        assert "X-Truncated" not in shop_client.get(TRANSACTIONS, shop_client.buyer, format="csv").headers

    def test_statement_csv_is_read_in_batches(
        self, shop_client: ShopClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(queries, "EXPORT_BATCH_SIZE", 2)
        for minute in range(7):
            credit(shop_client, minute + 1, minutes=minute)

        def minors(**query: str) -> list[str]:
            return [row[COLUMNS.index("amountMinor")] for row in as_csv(shop_client, **query)[1:]]

        assert minors() == minors(kind="reward") == ["7", "6", "5", "4", "3", "2", "1"]
        assert minors(to=later(minutes=5).isoformat()) == ["5", "4", "3", "2", "1"]
