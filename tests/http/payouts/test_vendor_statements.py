"""Vendor statements as JSON, CSV and PDF, from opening to closing balance."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from pypdf import PdfReader
from sqlalchemy.orm import Session

from blueprints.payouts.payees import statement_pdf
from marketplace.infra.db import Database
from marketplace.payouts import withdrawals
from marketplace.payouts.payees import statements
from marketplace.payouts.payees.statements import VendorStatementEntry
from marketplace.reconciliation import ledger_check
from tests.support.gateway import MovableClock
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    approved_batch,
    credit_balance,
    make_account,
    make_payee,
    record_vendor_debt,
    request_payout,
)
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, later, release, shipped_order
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient
from tests.support.transfers import dispatch, handle_transfer_report, transfers_in

STATEMENT = "/api/payouts/statement"
MONTH = {"from": "2026-11-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"}
VENDOR = UUID(int=7)
SHARE = 250_050 - 12_502 + 50_000


@pytest.fixture
def payee(shop_client: ShopClient) -> Payee:
    """Create a vendor with entries before, within and after the week of the statement."""
    made = shop_client.database.in_transaction(make_payee, owed_minor=0, display_name="Ṣọlá's ₦ Lights")
    for days, amount in ((-40, 900_000), (-3, 400_000)):
        shop_client.database.in_transaction(credit_balance, made, amount, now=later(days=days))
    shop_client.database.in_transaction(record_vendor_debt, made, 250_000, now=later(days=-2))
    shop_client.database.in_transaction(
        withdrawals.request_payout, caller=made.user, amount_minor=600_000, now=later(days=-1)
    )
    shop_client.database.in_transaction(credit_balance, made, 100_000, now=later(days=0))
    return made


@pytest.fixture(autouse=True, scope="module")
def ledger_stays_consistent(database_url: str) -> Iterator[None]:
    """Check after the module that the ledger is consistent."""
    yield
    database = Database(database_url, pool_size=1, application_name="tests")
    with database.reading() as session:
        assert ledger_check.verify_ledger(session) == []
    database.close()


def statement(shop_client: ShopClient, payee: Payee, **query: Any) -> dict[str, Any]:
    answer = shop_client.get(STATEMENT, shop_client.bearer(payee.user.id), **query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    return found


def lines(found: dict[str, Any]) -> list[tuple[str, str, str, int, int]]:
    names = ("kind", "account", "direction", "amountMinor", "balanceMinor")
    return [tuple(entry[name] for name in names) for entry in found["entries"]]


class TestStatement:
    def test_statement_runs_from_opening_to_closing_balance(
        self, shop_client: ShopClient, payee: Payee, clock: MovableClock
    ) -> None:
        clock.now = later(hours=1)
        found = statement(
            shop_client, payee, **{"from": "2026-11-16T00:00:00Z", "to": "2026-11-20T09:30:00Z"}
        )

        assert found["vendor"] == {"id": str(payee.store_id), "displayName": "Ṣọlá's ₦ Lights"}
        assert lines(found) == [
            ("reward", "vendor_payable", "credit", 400_000, 1_300_000),
            ("refund", "vendor_receivable", "debit", 250_000, 1_050_000),
            # Collecting a debt moves money between two accounts of the vendor, so the balance stays equal.
            ("clawback_collected", "vendor_payable", "debit", 250_000, 800_000),
            ("clawback_collected", "vendor_receivable", "credit", 250_000, 1_050_000),
            ("payout_staged", "vendor_payable", "debit", 600_000, 450_000),
        ]
        assert {name: value for name, value in found.items() if name.endswith("Minor")} == {
            "openingBalanceMinor": 900_000,
            "creditedMinor": 650_000,
            "debitedMinor": 1_100_000,
            "closingBalanceMinor": 450_000,
        }

    def test_consecutive_periods_have_no_gap(
        self, shop_client: ShopClient, payee: Payee, clock: MovableClock
    ) -> None:
        clock.now = later(hours=1)
        edges = [
            "2026-10-01T00:00:00Z",
            "2026-11-17T09:30:00Z",
            "2026-11-18T09:30:00Z",
            "2026-11-20T10:00:00Z",
        ]
        parts = [
            statement(shop_client, payee, **{"from": starts, "to": ends}) for starts, ends in pairwise(edges)
        ]
        assert parts[0]["openingBalanceMinor"] == 0
        for before, after in pairwise(parts):
            assert before["closingBalanceMinor"] == after["openingBalanceMinor"]
        assert parts[-1]["closingBalanceMinor"] == 550_000
        whole = statement(shop_client, payee, **{"from": edges[0], "to": edges[-1]})
        assert [entry for part in parts for entry in part["entries"]] == whole["entries"]

    def test_default_period_starts_with_the_month_of_the_end(
        self, shop_client: ShopClient, payee: Payee, clock: MovableClock
    ) -> None:
        found = statement(shop_client, payee)
        assert (found["from"], found["to"]) == ("2026-11-01T00:00:00Z", "2026-11-20T09:30:00Z")
        # A period ends at the present time at the latest and excludes postings at the end.
        assert statement(shop_client, payee, **MONTH) == found
        assert found["openingBalanceMinor"] == 900_000
        assert found["closingBalanceMinor"] == 450_000

        october = statement(shop_client, payee, to="2026-11-01T00:00:00Z")
        assert (october["from"], october["to"]) == ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
        assert october["closingBalanceMinor"] == 900_000

    def test_entries_name_the_order(self, shop_client: ShopClient, clock: MovableClock) -> None:
        order_id = shop_client.database.in_transaction(shipped_order, shop_client.shop)
        shop_client.database.in_transaction(release, shop_client.shop, order_id)
        clock.now = later(minutes=1)
        payee = Payee(shop_client.shop.vendor, shop_client.shop.store_id, order_id)
        [entry] = statement(shop_client, payee)["entries"]
        assert (entry["orderId"], entry["amountMinor"]) == (str(order_id), SHARE)
        assert entry["orderNumber"] in entry["description"]

    def test_store_without_entries_has_an_empty_statement(self, shop_client: ShopClient) -> None:
        payee = Payee(shop_client.shop.vendor, shop_client.shop.store_id, shop_client.shop.store_id)
        found = statement(shop_client, payee)
        assert (found["entries"], found["openingBalanceMinor"], found["closingBalanceMinor"]) == ([], 0, 0)
        assert shop_client.get(STATEMENT, shop_client.vendor, format="pdf").status_code == 200

    def test_negative_balance_is_shown_as_a_debt(self, shop_client: ShopClient, clock: MovableClock) -> None:
        payee = shop_client.database.in_transaction(make_payee, owed_minor=0)
        shop_client.database.in_transaction(record_vendor_debt, payee, 70_000)
        clock.now = later(minutes=1)
        assert statement(shop_client, payee)["closingBalanceMinor"] == -70_000
        pdf = shop_client.get(STATEMENT, shop_client.bearer(payee.user.id), format="pdf")
        assert "-NGN 700.00" in text_of(pdf.data)
        assert "is a debt to the marketplace" in text_of(pdf.data)

    @pytest.mark.parametrize(
        ("query", "named"),
        [
            ({"from": "2026-11-20T09:30:00Z"}, "from"),
            ({"from": "2026-11-19T00:00:00Z", "to": "2026-11-18T00:00:00Z"}, "from"),
            ({"from": "2025-11-18T09:30:00Z"}, "from"),
            ({"from": "2026-11-01"}, "from"),
            ({"format": "xls"}, "format"),
        ],
    )
    def test_invalid_query_parameter_is_refused(
        self, shop_client: ShopClient, query: dict[str, str], named: str
    ) -> None:
        assert list(faults(shop_client.get(STATEMENT, shop_client.vendor, **query))) == [named]

    def test_period_of_366_days_is_accepted(self, shop_client: ShopClient) -> None:
        assert (
            shop_client.get(STATEMENT, shop_client.vendor, **{"from": "2025-11-19T09:30:00Z"}).status_code
            == 200
        )

    def test_statement_is_visible_to_the_vendor_and_finance_only(
        self, shop_client: ShopClient, payee: Payee
    ) -> None:
        own = {"vendorId": str(payee.store_id)}
        assert shop_client.get(STATEMENT, shop_client.officer("finance"), **own).json["data"] == statement(
            shop_client, payee
        )
        assert_problem(shop_client.get(STATEMENT, shop_client.vendor, **own), 404, "RESOURCE_NOT_FOUND")
        for headers in (shop_client.officer("support"), shop_client.buyer):
            assert_problem(shop_client.get(STATEMENT, headers, **own), 403, "AUTH_FORBIDDEN")
        assert list(faults(shop_client.get(STATEMENT, shop_client.officer("finance")))) == ["vendorId"]
        assert_problem(shop_client.client.get(STATEMENT), 401, "AUTH_UNAUTHORIZED")

    def test_statement_above_the_row_limit_is_refused_not_truncated(
        self, shop_client: ShopClient, payee: Payee, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(statements, "PAGED_ROWS_LIMIT", 5)
        assert len(statement(shop_client, payee)["entries"]) == 5
        monkeypatch.setattr(statements, "PAGED_ROWS_LIMIT", 4)
        own = shop_client.bearer(payee.user.id)
        for form in ("json", "pdf"):
            refused = shop_client.get(STATEMENT, own, format=form)
            assert list(faults(refused)) == ["to"]
            assert refused.json["detail"].endswith("Choose a shorter period or the CSV format.")
        assert shop_client.get(STATEMENT, own, format="csv").status_code == 200
        monkeypatch.setattr(statements, "FILE_ROWS_LIMIT", 4)
        refused = shop_client.get(STATEMENT, own, format="csv")
        assert list(faults(refused)) == ["to"]
        assert refused.json["detail"].endswith("Choose a shorter period.")

    def test_statement_takes_a_constant_number_of_queries(
        self, shop_client: ShopClient, payee: Payee, clock: MovableClock
    ) -> None:
        counts = []
        for _round in range(2):
            clock.now += timedelta(minutes=1)
            with counted_statements(shop_client.database) as seen:
                statement(shop_client, payee)
            counts.append(len(seen))
            shop_client.database.in_transaction(credit_balance, payee, 1_000, now=clock.now)
        assert counts[0] == counts[1]


class TestFiles:
    def test_csv_has_the_entries_between_opening_and_closing_balance(
        self, shop_client: ShopClient, payee: Payee
    ) -> None:
        own = shop_client.bearer(payee.user.id)
        answer = shop_client.get(STATEMENT, own, format="csv")
        assert answer.content_type == "text/csv; charset=utf-8"
        assert 'filename="statement-2026-11-01-2026-11-20.csv"' in answer.headers["Content-Disposition"]
        assert "X-Truncated" not in answer.headers

        first, *rows, last = csv.DictReader(io.StringIO(answer.text))
        assert (first["kind"], first["balanceMinor"], first["amountMinor"]) == (
            "opening_balance",
            "900000",
            "",
        )
        assert (last["kind"], last["balanceMinor"]) == ("closing_balance", "450000")
        assert [
            (row["kind"], row["account"], row["direction"], int(row["amountMinor"]), int(row["balanceMinor"]))
            for row in rows
        ] == lines(statement(shop_client, payee))

    def test_pdf_has_period_balances_and_entries(self, shop_client: ShopClient, payee: Payee) -> None:
        answer = shop_client.get(STATEMENT, shop_client.bearer(payee.user.id), format="pdf")
        assert answer.content_type == "application/pdf"
        assert 'filename="statement-2026-11-01-2026-11-20.pdf"' in answer.headers["Content-Disposition"]

        text = text_of(answer.data)
        for words in (
            "Statement of account",
            "Ṣọlá's ₦ Lights",
            "Period: 2026-11-01 00:00 to 2026-11-20 09:30 UTC (end excluded)",
            "NGN 9,000.00",
            "NGN 6,500.00",
            "-NGN 11,000.00",
            "NGN 4,500.00",
            # The description is wrapped over two lines.
            "Deducted for an order that was",
            "its release",
            "Page 1 of 1",
        ):
            assert words in text, words
        assert text.count("2,500.00") == 3

    def test_pdf_names_the_account_paid_in_the_period_not_the_current_account(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        with shop_client.database.transaction() as session:
            payee = make_payee(session, owed_minor=0, account={"account_number": "1234500001"})
            _pay(session, payee, "success", days=-20)
            make_account(session, payee.user.id, account_number="1234500002", created_at=later(days=-15))
            _pay(session, payee, "failed", days=-10)
            make_account(session, payee.user.id, account_number="1234500003", created_at=later(days=-8))
            _pay(session, payee, "success", days=-5)
            make_account(session, payee.user.id, account_number="1234500004", created_at=later(days=-3))
            credit_balance(session, payee, OWED_MINOR, now=later(days=-2))
            request_payout(session, payee, OWED_MINOR, now=later(days=-1))
        clock.now = later(minutes=1)

        def named(first: int, end: int) -> list[str]:
            period = {"from": later(days=first).isoformat(), "to": later(days=end).isoformat()}
            pdf = shop_client.get(STATEMENT, shop_client.bearer(payee.user.id), format="pdf", **period)
            assert pdf.status_code == 200, pdf.text
            return [line for line in text_of(pdf.data).splitlines() if line.startswith("Paid to")]

        assert named(-25, -16) == ["Paid to Guaranty Trust Bank, ******0001, NGOZI LAMPS"]
        # Failed payouts paid no account, and pending payouts may still change the account.
        assert named(-16, -9) == []
        assert named(-9, 0) == ["Paid to Guaranty Trust Bank, ******0003, NGOZI LAMPS"]
        assert named(-25, 0) == ["Paid to several accounts"]

    def test_pdf_counts_a_reused_account_number_as_a_single_account(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        number = "1234500005"
        with shop_client.database.transaction() as session:
            payee = make_payee(session, owed_minor=0, account={"account_number": number})
            _pay(session, payee, "success", days=-5)
            make_account(session, payee.user.id, account_number=number, created_at=later(days=-4))
            _pay(session, payee, "success", days=-2)
        clock.now = later(minutes=1)

        pdf = shop_client.get(STATEMENT, shop_client.bearer(payee.user.id), format="pdf")

        assert "Paid to Guaranty Trust Bank, ******0005, NGOZI LAMPS" in text_of(pdf.data)

    @pytest.mark.parametrize(
        ("accept", "kind"),
        [
            ("text/csv", "text/csv; charset=utf-8"),
            ("application/pdf", "application/pdf"),
            ("application/json", "application/json; charset=utf-8"),
            ("*/*", "application/json; charset=utf-8"),
            ("text/html", "application/json; charset=utf-8"),
        ],
    )
    def test_accept_header_selects_the_format(self, shop_client: ShopClient, accept: str, kind: str) -> None:
        answer = shop_client.client.get(STATEMENT, headers=shop_client.vendor | {"Accept": accept})
        assert (answer.status_code, answer.content_type) == (200, kind)

    def test_long_pdf_repeats_the_heading_on_each_page(self) -> None:
        drawn = statement_pdf.render_pdf(_make_statement(120), generated_at=NOW)
        pages = PdfReader(io.BytesIO(drawn)).pages
        assert len(pages) == 3
        for number, page in enumerate(pages, 1):
            text = page.extract_text()
            assert "Date (UTC)" in text
            assert f"Page {number} of 3" in text
        whole = text_of(drawn)
        assert all(f"CM-{number}\n" in whole or f"CM-{number} " in whole for number in range(120))

    def test_same_statement_renders_the_same_pdf(self) -> None:
        assert statement_pdf.render_pdf(_make_statement(3), generated_at=NOW) == statement_pdf.render_pdf(
            _make_statement(3), generated_at=NOW
        )

    def test_pdf_replaces_missing_glyphs_and_shortens_long_names(self) -> None:
        text = text_of(
            statement_pdf.render_pdf(_make_statement(1, name="Ọjà 💡 灯 " + "W" * 200), generated_at=NOW)
        )
        assert "Ọjà ? ? W" in text
        assert "…" in text

    def test_long_name_leaves_room_for_the_page_number(self) -> None:
        text = text_of(statement_pdf.render_pdf(_make_statement(1, name="W" * 80), generated_at=NOW))
        [foot] = re.findall(r"(W+)… · generated 2026-11-20 09:30 UTC", text)
        # The name may take at most half of the line, beside the page number.
        assert len(foot) < 40
        assert "Page 1 of 1" in text

    def test_page_placeholder_in_a_name_is_not_replaced(self) -> None:
        text = text_of(
            statement_pdf.render_pdf(
                _make_statement(120, name="The {nb} shop \ufdd0\ufdd0\ufdd0"), generated_at=NOW
            )
        )
        assert text.count("The {nb} shop ???") == 1 + 3
        assert "Page 3 of 3" in text

    def test_large_amounts_are_not_truncated(self) -> None:
        entry = replace(_make_statement(1).entries[0], amount_minor=10**15 - 1, balance_minor=-(10**15))
        drawn = statement_pdf.render_pdf(_make_statement(0, entries=[entry]), generated_at=NOW)
        text = text_of(drawn)
        assert "9,999,999,999,999.99" in text
        assert "-10,000,000,000,000.00" in text


def _pay(session: Session, payee: Payee, outcome: str, *, days: int) -> None:
    """Credit a payee, dispatch the payout without the API and apply the gateway's status event."""
    now = later(days=days)
    credit_balance(session, payee, OWED_MINOR, now=now)
    batch_id = approved_batch(session, [payee], now=now)
    dispatch(session, batch_id, now=now)
    [transfer] = transfers_in(session, batch_id)
    handle_transfer_report(session, transfer, outcome, now=now)


def _make_statement(
    number: int, *, name: str = "Lights", entries: list[VendorStatementEntry] | None = None
) -> statements.VendorStatement:
    made = [
        VendorStatementEntry(
            at=NOW,
            kind="release",
            description=f"Escrow of order CM-{index} released",
            balance_minor=100 * (index + 1),
            order_number=f"CM-{index}",
            account="vendor_payable",
            direction="credit",
            amount_minor=100,
        )
        for index in range(number)
    ]
    return statements.VendorStatement(
        vendor=statements.StatementVendor(VENDOR, name, None),
        paid_accounts=[],
        period=statements.StatementPeriod(datetime(2026, 1, 1, tzinfo=UTC), NOW),
        opening_balance_minor=0,
        entries=made if entries is None else entries,
    )


def text_of(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)
