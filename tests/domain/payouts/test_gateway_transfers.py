"""Adapter of the gateway's transfer API: requests, responses and lost responses."""

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


def make_instruction(adapter: HttpTransferGateway, **values: Any) -> TransferInstruction:
    recipient = adapter.create_recipient(**ACCOUNT)
    assert recipient is not None
    given: dict[str, Any] = {
        "reference": f"payout-{uuid4().hex}",
        "amount_minor": AMOUNT_MINOR,
        "recipient_code": recipient,
        "reason": "Payout",
    }
    return TransferInstruction(**given | values)


def test_same_bank_account_has_the_same_recipient_code(adapter: HttpTransferGateway) -> None:
    first, second = (adapter.create_recipient(**ACCOUNT) for _ in range(2))

    assert first == second
    assert first is not None
    assert first.startswith("RCP_")


@pytest.mark.usefixtures("funds")
def test_repeated_send_with_same_reference_makes_a_single_transfer(
    adapter: HttpTransferGateway, gateway: TestGateway
) -> None:
    order = make_instruction(adapter)

    sent = [adapter.send(order) for _ in range(3)]

    assert {(one.transfer_code, one.amount_minor, one.reference) for one in sent} == {
        (sent[0].transfer_code, AMOUNT_MINOR, order.reference)
    }
    assert gateway.calls(order.reference) == {"POST /transfer": 3}
    known = adapter.fetch_transfer(order.reference)
    assert known is not None
    assert (known.id, known.amount_minor) == (sent[0].id, AMOUNT_MINOR)
    with pytest.raises(TransferRefusedError) as refused:
        adapter.send(make_instruction(adapter, reference=order.reference, amount_minor=1))
    assert not refused.value.is_permanent


@pytest.mark.usefixtures("funds")
def test_bulk_send_accepts_all_transfers_or_none(adapter: HttpTransferGateway) -> None:
    orders = [make_instruction(adapter, amount_minor=1_000) for _ in range(MAX_BULK_TRANSFERS)]

    sent = adapter.send_bulk(orders)

    assert {one.reference for one in sent} == {order.reference for order in orders}
    assert all(one.transfer_code and one.status == "pending" and one.id == "" for one in sent)
    other = make_instruction(adapter)
    with pytest.raises(TransferRefusedError):
        adapter.send_bulk([other, orders[0]])
    assert adapter.fetch_transfer(other.reference) is None
    with pytest.raises(ValueError, match="at most 100 transfers"):
        adapter.send_bulk([*orders, other])


def test_transfer_above_the_gateway_balance_is_refused_as_insufficient(
    adapter: HttpTransferGateway, gateway: TestGateway
) -> None:
    held = gateway.call("GET", "/balance")[0]["balance"]
    order = make_instruction(adapter, amount_minor=held + 1)

    with pytest.raises(InsufficientGatewayBalanceError):
        adapter.send(order)
    with pytest.raises(InsufficientGatewayBalanceError):
        adapter.send_bulk([order])


@pytest.mark.usefixtures("funds")
def test_transfer_to_unknown_recipient_is_refused(adapter: HttpTransferGateway) -> None:
    order = make_instruction(adapter, recipient_code="RCP_none")

    with pytest.raises(TransferRefusedError) as refused:
        adapter.send(order)
    assert (refused.value.status, refused.value.is_permanent) == (400, True)
    with pytest.raises(TransferRefusedError):
        adapter.send_bulk([make_instruction(adapter), order])


@pytest.mark.usefixtures("funds")
@pytest.mark.parametrize("fault", ["refuse", "lose", "garble"])
def test_lost_response_is_reported_as_unavailable_not_as_refusal(
    adapter: HttpTransferGateway, gateway: TestGateway, fault: str
) -> None:
    order = make_instruction(adapter)
    gateway.proxy.fault = fault

    for call in (
        lambda: adapter.send(order),
        lambda: adapter.send_bulk([order]),
        lambda: adapter.fetch_transfer(order.reference),
        lambda: adapter.create_recipient(**ACCOUNT),
    ):
        with pytest.raises(ProviderUnavailableError) as lost:
            call()
        assert not isinstance(lost.value, GatewayKeyRefusedError)


def test_wrong_secret_key_raises_key_refused_error(gateway: TestGateway, settings: Settings) -> None:
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
    orders = [make_instruction(adapter, amount_minor=1_000) for _ in range(MAX_BULK_TRANSFERS + 1)]
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
def test_each_gateway_status_has_a_single_meaning(status: str, meaning: str | None) -> None:
    transfer = GatewayTransfer.from_wire(transfer_data(status, fee_charged=2_500))

    meanings = ("succeeded", "failed", "reversed", "awaits_otp")
    assert [name for name in meanings if getattr(transfer, name)] == ([meaning] if meaning else [])
    assert transfer.fee_minor == 2_500


@pytest.mark.parametrize("fee", [None, -1, 1.5, "2500", True])
def test_invalid_fee_counts_as_zero(fee: object) -> None:
    assert GatewayTransfer.from_wire(transfer_data("success", fee_charged=fee)).fee_minor == 0


@pytest.mark.parametrize("broken", [{"amount": 1.0}, {"amount": None}, {"reference": ""}, {"id": None}])
def test_unreadable_transfer_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(MalformedGatewayDataError):
        GatewayTransfer.from_wire(transfer_data("success", **broken))
