"""The adapter of the gateway's transfers: what it sends, what it makes of answers, and of none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.gateway.client import GatewayKeyRefusedError
from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.providers.gateway.records import HttpGatewayRecords
from marketplace.providers.gateway.transfers import (
    MAX_BULK_TRANSFERS,
    HttpTransferGateway,
    InsufficientGatewayBalanceError,
    TransferInstruction,
    TransferRefusedError,
)
from tests.support.gateway import TestGateway
from tests.support.gateway_events import transfer_data

AMOUNT_MINOR = 150_000
ACCOUNT = {"name": "Ngozi Obi", "account_number": "0123456789", "bank_code": "058"}


@pytest.fixture
def adapter(gateway: TestGateway, settings: Settings) -> HttpTransferGateway:
    return gateway.transfer_adapter(settings)


@pytest.fixture
def funds(gateway: TestGateway) -> None:
    gateway.fill(100 * AMOUNT_MINOR)


def order_to(adapter: HttpTransferGateway, **values: Any) -> TransferInstruction:
    recipient = adapter.create_recipient(**ACCOUNT)
    assert recipient is not None
    given: dict[str, Any] = {
        "reference": f"payout-{uuid4().hex}",
        "amount_minor": AMOUNT_MINOR,
        "recipient_code": recipient,
        "reason": "Payout",
    }
    return TransferInstruction(**given | values)


def test_the_same_account_is_the_same_recipient(adapter: HttpTransferGateway) -> None:
    first, second = (adapter.create_recipient(**ACCOUNT) for _ in range(2))

    assert first == second
    assert first is not None
    assert first.startswith("RCP_")


@pytest.mark.usefixtures("funds")
def test_the_same_reference_is_the_same_transfer(adapter: HttpTransferGateway, gateway: TestGateway) -> None:
    order = order_to(adapter)

    sent = [adapter.send(order) for _ in range(3)]

    assert {(one.transfer_code, one.amount_minor, one.reference) for one in sent} == {
        (sent[0].transfer_code, AMOUNT_MINOR, order.reference)
    }
    assert gateway.calls(order.reference) == {"POST /transfer": 3}
    known = adapter.fetch_transfer(order.reference)
    assert known is not None
    assert (known.id, known.amount_minor) == (sent[0].id, AMOUNT_MINOR)
    with pytest.raises(TransferRefusedError) as refused:
        adapter.send(order_to(adapter, reference=order.reference, amount_minor=1))
    assert not refused.value.is_permanent


@pytest.mark.usefixtures("funds")
def test_many_are_sent_at_once_or_none(adapter: HttpTransferGateway) -> None:
    orders = [order_to(adapter, amount_minor=1_000) for _ in range(MAX_BULK_TRANSFERS)]

    sent = adapter.send_bulk(orders)

    assert {one.reference for one in sent} == {order.reference for order in orders}
    assert all(one.transfer_code and one.status == "pending" and one.id == "" for one in sent)
    other = order_to(adapter)
    with pytest.raises(TransferRefusedError):
        adapter.send_bulk([other, orders[0]])
    assert adapter.fetch_transfer(other.reference) is None
    with pytest.raises(ValueError, match="at most 100 transfers"):
        adapter.send_bulk([*orders, other])


def test_more_than_there_is_is_refused_as_that(adapter: HttpTransferGateway, gateway: TestGateway) -> None:
    held = gateway.call("GET", "/balance")[0]["balance"]
    order = order_to(adapter, amount_minor=held + 1)

    with pytest.raises(InsufficientGatewayBalanceError):
        adapter.send(order)
    with pytest.raises(InsufficientGatewayBalanceError):
        adapter.send_bulk([order])


@pytest.mark.usefixtures("funds")
def test_an_unknown_recipient_is_refused(adapter: HttpTransferGateway) -> None:
    order = order_to(adapter, recipient_code="RCP_none")

    with pytest.raises(TransferRefusedError) as refused:
        adapter.send(order)
    assert (refused.value.status, refused.value.is_permanent) == (400, True)
    with pytest.raises(TransferRefusedError):
        adapter.send_bulk([order_to(adapter), order])


@pytest.mark.usefixtures("funds")
@pytest.mark.parametrize("fault", ["refuse", "lose", "garble"])
def test_a_lost_answer_is_no_refusal(adapter: HttpTransferGateway, gateway: TestGateway, fault: str) -> None:
    order = order_to(adapter)
    gateway.line.fault = fault

    for call in (
        lambda: adapter.send(order),
        lambda: adapter.send_bulk([order]),
        lambda: adapter.fetch_transfer(order.reference),
        lambda: adapter.create_recipient(**ACCOUNT),
    ):
        with pytest.raises(ProviderUnavailableError) as lost:
            call()
        assert not isinstance(lost.value, GatewayKeyRefusedError)


def test_a_wrong_key_is_told_apart(gateway: TestGateway, settings: Settings) -> None:
    adapter = gateway.transfer_adapter(settings, gateway_secret_key="sk_test_of_somebody_else")

    for call in (
        lambda: adapter.create_recipient(**ACCOUNT),
        lambda: adapter.send(TransferInstruction("payout-" + "0" * 32, 1, "RCP_x", "Payout")),
        lambda: adapter.fetch_transfer("payout-" + "0" * 32),
    ):
        with pytest.raises(GatewayKeyRefusedError):
            call()


@pytest.mark.usefixtures("funds")
def test_transfers_of_a_period_are_listed_by_page(
    adapter: HttpTransferGateway, gateway: TestGateway, settings: Settings
) -> None:
    records = HttpGatewayRecords(replace(settings, **gateway.settings()))
    since = datetime.now(UTC) - timedelta(seconds=5)
    orders = [order_to(adapter, amount_minor=1_000) for _ in range(MAX_BULK_TRANSFERS + 1)]
    for part in (orders[:MAX_BULK_TRANSFERS], orders[MAX_BULK_TRANSFERS:]):
        adapter.send_bulk(part)

    pages = list(
        records.list_records("transfer", since=since, until=datetime.now(UTC) + timedelta(seconds=5))
    )
    listed = [record for page in pages for record in page]

    assert {order.reference for order in orders} <= {one.reference for one in listed}
    assert all(one.created_at >= since for one in listed)
    earlier = records.list_records(
        "transfer", since=since - timedelta(days=2), until=since - timedelta(days=1)
    )
    assert not any(earlier)


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        ("success", "succeeded"),
        ("failed", "failed"),
        ("blocked", "failed"),
        ("rejected", "failed"),
        ("abandoned", "failed"),
        ("reversed", "reversed"),
        ("otp", "awaits_otp"),
        ("pending", None),
        ("received", None),
        ("", None),
    ],
)
def test_the_gateways_words_have_one_meaning_each(status: str, meaning: str | None) -> None:
    told = GatewayTransfer.from_wire(transfer_data(status, fee_charged=2_500))

    meanings = ("succeeded", "failed", "reversed", "awaits_otp")
    assert [name for name in meanings if getattr(told, name)] == ([meaning] if meaning else [])
    assert told.fee_minor == 2_500


@pytest.mark.parametrize("fee", [None, -1, 1.5, "2500", True])
def test_a_fee_that_is_none_is_not_reckoned_with(fee: object) -> None:
    assert GatewayTransfer.from_wire(transfer_data("success", fee_charged=fee)).fee_minor == 0


@pytest.mark.parametrize("broken", [{"amount": 1.0}, {"amount": None}, {"reference": ""}, {"id": None}])
def test_unreadable_transfer_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(MalformedGatewayDataError):
        GatewayTransfer.from_wire(transfer_data("success", **broken))
