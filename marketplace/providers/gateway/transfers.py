"""The payment gateway's interface for transfers to bank accounts, and the adapter of the HTTP API."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import texts
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.client import GatewayClient, ensure_key_accepted
from marketplace.providers.gateway.fields import require_list, require_text
from marketplace.providers.gateway.payloads import GatewayTransfer

# The gateway's limit per request.
MAX_BULK_TRANSFERS = 100
_CURRENCY = "NGN"


class InsufficientGatewayBalanceError(Exception):
    """The balance at the gateway is too low. The gateway sent nothing."""


class TransferRefusedError(Exception):
    """The gateway refused a transfer or a batch and sent nothing.

    With ``is_permanent``, the gateway does not accept the recipient. Otherwise the gateway may accept the same transfer
    later, for example because the gateway currently refuses all transfers.
    """

    def __init__(self, status: int, *, is_permanent: bool = False) -> None:
        super().__init__(f"refused with status {status}")
        self.status = status
        self.is_permanent = is_permanent


@dataclass(frozen=True, slots=True)
class TransferInstruction:
    """An instruction to send an amount in kobo to a recipient code, with our reference.

    ``reason`` appears on the bank statement.
    """

    reference: str
    amount_minor: int
    recipient_code: str
    reason: str

    def to_wire(self) -> dict[str, Any]:
        """Return the instruction as JSON of the gateway."""
        return {
            "reference": self.reference,
            "amount": self.amount_minor,
            "recipient": self.recipient_code,
            "reason": self.reason,
        }


class TransferGateway(Protocol):
    """The gateway's operations on transfers."""

    def create_recipient(self, *, name: str, account_number: str, bank_code: str) -> str | None:
        """Create a recipient for a bank account, or return none if the gateway refuses the account."""

    def send(self, instruction: TransferInstruction) -> GatewayTransfer:
        """Send a transfer. A repeated reference returns the existing transfer."""

    def send_bulk(self, instructions: Sequence[TransferInstruction]) -> list[GatewayTransfer]:
        """Send up to 100 transfers, all or none."""

    def fetch_transfer(self, reference: str) -> GatewayTransfer | None:
        """Fetch the transfer of a reference, or none if the gateway has no such transfer."""


class HttpTransferGateway:
    """The adapter of the gateway's HTTP API for transfers."""

    def __init__(self, settings: Settings) -> None:
        self._client = GatewayClient(settings, tells_refused_key=True)

    def create_recipient(self, *, name: str, account_number: str, bank_code: str) -> str | None:
        """Create a recipient for a bank account. The same account always has the same recipient.

        :param name: the holder's name according to the bank
        :param account_number: ten digits
        :param bank_code: a code from ``list_banks``
        :return: the recipient code; none if the gateway refuses the account, usually because the account does not exist
        :raises GatewayKeyRefusedError: the gateway refused the key
        :raises ProviderUnavailableError: no valid response in time; the call can be repeated
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
        """Send a transfer. A repeated reference returns the existing transfer.

        :raises InsufficientGatewayBalanceError: the balance is too low; nothing was sent
        :raises TransferRefusedError: the gateway refused the transfer; nothing was sent
        :raises GatewayKeyRefusedError: the gateway refused the key; nothing was sent
        :raises ProviderUnavailableError: no valid response in time; the outcome is unknown
        """
        with _translating_refusals():
            return self._client.post(
                "/transfer",
                {"source": "balance", "currency": _CURRENCY} | instruction.to_wire(),
                partial(_read_transfer, reference=instruction.reference, may_lack_id=True),
            )

    def send_bulk(self, instructions: Sequence[TransferInstruction]) -> list[GatewayTransfer]:
        """Send up to 100 transfers, all or none.

        :return: the transfers in any order; transfers that the gateway does not report are missing
        :raises ValueError: more than ``MAX_BULK_TRANSFERS`` instructions
        :raises InsufficientGatewayBalanceError: the balance is too low; nothing was sent
        :raises TransferRefusedError: the gateway refused a transfer, for example a duplicate; nothing was sent
        :raises GatewayKeyRefusedError: the gateway refused the key; nothing was sent
        :raises ProviderUnavailableError: no valid response in time; the outcome is unknown
        """
        if len(instructions) > MAX_BULK_TRANSFERS:
            raise ValueError(f"the gateway accepts at most {MAX_BULK_TRANSFERS} transfers per request")
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
            raise ProviderUnavailableError(texts.GATEWAY_UNEXPECTED_RESPONSE)
        return sent

    def fetch_transfer(self, reference: str) -> GatewayTransfer | None:
        """Fetch the transfer of a reference.

        :return: none if the gateway has no such transfer
        :raises GatewayKeyRefusedError: the gateway refused the key
        :raises ProviderUnavailableError: no valid response in time
        """
        # Only 404 proves that the transfer was never sent.
        return self._client.fetch(
            f"/transfer/verify/{reference}",
            partial(_read_transfer, reference=reference),
            unknown_statuses=(404,),
        )


def _read_transfer(data: Any, *, reference: str, may_lack_id: bool = False) -> GatewayTransfer:
    """Parse a transfer and check the reference."""
    transfer = GatewayTransfer.from_wire(data, may_lack_id=may_lack_id)
    if transfer.reference != reference:
        raise ProviderUnavailableError(texts.GATEWAY_OTHER_TRANSFER)
    return transfer


@contextmanager
def _translating_refusals() -> Iterator[None]:
    """Translate a refusal into the error for its cause."""
    try:
        yield
    except ProviderRefusedError as error:
        ensure_key_accepted(error)
        if error.code == "insufficient_balance" or "balance is not enough" in error.message.lower():
            raise InsufficientGatewayBalanceError from error
        is_permanent = error.code == "invalid_transfer_recipient"
        raise TransferRefusedError(error.status, is_permanent=is_permanent) from error
