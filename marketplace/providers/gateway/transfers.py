"""Transfers to bank accounts: what the domain asks of the payment gateway, and the adapter of its HTTP API."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.client import UNEXPECTED_RESPONSE, GatewayClient, ensure_key_accepted
from marketplace.providers.gateway.fields import require_list, require_text
from marketplace.providers.gateway.payloads import GatewayTransfer

# More the gateway does not take at once.
MAX_BULK_TRANSFERS = 100
_CURRENCY = "NGN"


class InsufficientGatewayBalanceError(Exception):
    """The balance at the gateway does not suffice: nothing was sent."""


class TransferRefusedError(Exception):
    """The gateway refused what it was told to send, and sent nothing of it.

    ``for_good`` says that it is the recipient that it does not take; else it may be that it takes no transfers of ours
    at all, for a reason of its own, and would take the same one later.
    """

    def __init__(self, status: int, *, is_permanent: bool = False) -> None:
        super().__init__(f"refused with status {status}")
        self.status = status
        self.is_permanent = is_permanent


@dataclass(frozen=True, slots=True)
class TransferInstruction:
    """What the gateway is told to send: so many kobo, to a recipient that it knows, under a reference of ours.

    ``reason`` is what the bank's statement shows.
    """

    reference: str
    amount_minor: int
    recipient_code: str
    reason: str

    def to_wire(self) -> dict[str, Any]:
        """Write it as the gateway's JSON."""
        return {
            "reference": self.reference,
            "amount": self.amount_minor,
            "recipient": self.recipient_code,
            "reason": self.reason,
        }


class TransferGateway(Protocol):
    """The gateway's transfers, as the domain needs them."""

    def create_recipient(self, *, name: str, account_number: str, bank_code: str) -> str | None:
        """Have a bank account made a recipient; none if there is no such account."""

    def send(self, instruction: TransferInstruction) -> GatewayTransfer:
        """Send a transfer; the same reference again gives the one that there is."""

    def send_bulk(self, instructions: Sequence[TransferInstruction]) -> list[GatewayTransfer]:
        """Send up to 100 transfers, all of them or none."""

    def fetch_transfer(self, reference: str) -> GatewayTransfer | None:
        """Ask what became of a reference; none if the gateway does not know it."""


class HttpTransferGateway:
    """The gateway's HTTP API of transfers. Every call carries the secret key."""

    def __init__(self, settings: Settings) -> None:
        self._client = GatewayClient(settings, tells_refused_key=True)

    def create_recipient(self, *, name: str, account_number: str, bank_code: str) -> str | None:
        """Have a bank account made a recipient of transfers; the same account is the same one.

        :param name: the account's, as the bank says
        :param account_number: ten digits
        :param bank_code: as ``banks`` lists it
        :return: the recipient's code, or none if there is no such account
        :raises GatewayKeyRefusedError: the gateway refuses our key
        :raises ProviderUnavailableError: no usable answer in time; the same call may be made again
        """
        body = {
            "type": "nuban",
            "name": name,
            "account_number": account_number,
            "bank_code": bank_code,
            "currency": _CURRENCY,
        }
        try:
            return self._client.post(
                "/transferrecipient", body, partial(require_text, name="recipient_code", max_length=100)
            )
        except ProviderRefusedError as error:
            ensure_key_accepted(error)
            return None

    def send(self, instruction: TransferInstruction) -> GatewayTransfer:
        """Send a transfer; the same reference again gives the one that there is.

        :raises InsufficientGatewayBalanceError: the balance does not suffice: nothing was sent
        :raises TransferRefusedError: the gateway refused it: nothing was sent
        :raises GatewayKeyRefusedError: the gateway refuses our key: nothing was sent
        :raises ProviderUnavailableError: no usable answer in time: whether it was sent is unknown
        """
        with _translating_refusals():
            return self._client.post(
                "/transfer",
                {"source": "balance", "currency": _CURRENCY} | instruction.to_wire(),
                partial(_read_transfer, reference=instruction.reference, may_lack_id=True),
            )

    def send_bulk(self, instructions: Sequence[TransferInstruction]) -> list[GatewayTransfer]:
        """Send up to 100 transfers, all of them or none.

        :return: them, in no particular order; some may be missing if the gateway says nothing of them
        :raises InsufficientGatewayBalanceError: the balance does not suffice: nothing was sent
        :raises TransferRefusedError: the gateway refused one of them, having it already for instance: none was sent
        :raises GatewayKeyRefusedError: the gateway refuses our key: none was sent
        :raises ProviderUnavailableError: no usable answer in time: whether they were sent is unknown
        """
        if len(instructions) > MAX_BULK_TRANSFERS:
            raise ValueError("the gateway does not take so many transfers at once")
        body = {
            "source": "balance",
            "currency": _CURRENCY,
            "transfers": [instruction.to_wire() for instruction in instructions],
        }
        with _translating_refusals():
            sent = self._client.post(
                "/transfer/bulk",
                body,
                lambda data: [
                    GatewayTransfer.from_wire(item, may_lack_id=True) for item in require_list(data)
                ],
            )
        known_references = {instruction.reference for instruction in instructions}
        if len(sent) > len(instructions) or not {transfer.reference for transfer in sent} <= known_references:
            raise ProviderUnavailableError(UNEXPECTED_RESPONSE)
        return sent

    def fetch_transfer(self, reference: str) -> GatewayTransfer | None:
        """Ask what became of a reference.

        :return: the transfer, or none if the gateway does not know the reference
        :raises GatewayKeyRefusedError: the gateway refuses our key
        :raises ProviderUnavailableError: no usable answer in time
        """
        # Only 404 says that it was never sent; any other refusal says nothing.
        return self._client.fetch(
            f"/transfer/verify/{reference}",
            partial(_read_transfer, reference=reference),
            unknown_statuses=(404,),
        )


def _read_transfer(data: Any, *, reference: str, may_lack_id: bool = False) -> GatewayTransfer:
    """Read the transfer that the answer must be about."""
    transfer = GatewayTransfer.from_wire(data, may_lack_id=may_lack_id)
    if transfer.reference != reference:
        raise ProviderUnavailableError("The payment gateway answered about another transfer. Try again.")
    return transfer


@contextmanager
def _translating_refusals() -> Iterator[None]:
    """Tell apart why the gateway refuses to send."""
    try:
        yield
    except ProviderRefusedError as error:
        ensure_key_accepted(error)
        if error.code == "insufficient_balance" or "balance is not enough" in error.message.lower():
            raise InsufficientGatewayBalanceError from error
        is_permanent = error.code == "invalid_transfer_recipient"
        raise TransferRefusedError(error.status, is_permanent=is_permanent) from error
