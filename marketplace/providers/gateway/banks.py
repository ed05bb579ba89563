"""Banks, and accounts at them, as the gateway's JSON has them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from marketplace.providers.gateway.errors import MalformedGatewayDataError


@dataclass(frozen=True, slots=True)
class Bank:
    """A bank that accounts can be at."""

    code: str
    name: str

    @classmethod
    def list_from_wire(cls, data: Any) -> list["Bank"]:
        """Read a page of the list of banks; those that are closed are left out.

        :raises MalformedGatewayDataError: a field is missing or of another type
        """
        if not isinstance(data, list):
            raise MalformedGatewayDataError("not the banking data that was asked for")
        return [
            cls(code=_require_text(item, "code"), name=_require_text(item, "name"))
            for item in data
            if isinstance(item, dict) and item.get("active") is not False and not item.get("is_deleted")
        ]


@dataclass(frozen=True, slots=True)
class GatewayTransferAccount:
    """The account that the transfer for one payment goes to, and how long it is open."""

    bank_name: str
    account_number: str
    account_name: str
    expires_at: datetime

    @classmethod
    def from_wire(cls, data: Any, *, reference: str) -> "GatewayTransferAccount":
        """Read the account that the gateway made for a payment.

        :param reference: of the payment, which the answer must be about
        :raises MalformedGatewayDataError: a field is missing or of another type, or it is another payment's
        """
        if not isinstance(data, dict) or data.get("reference") != reference:
            raise MalformedGatewayDataError("not the banking data that was asked for")
        bank = data.get("bank")
        try:
            expires_at = datetime.fromisoformat(_require_text(data, "account_expires_at"))
        except ValueError as error:
            raise MalformedGatewayDataError("account_expires_at is no time") from error
        return cls(
            bank_name=_require_text(bank, "name"),
            account_number=_require_text(data, "account_number"),
            account_name=_require_text(data, "account_name"),
            # A time without its zone is UTC, as all of the gateway's are.
            expires_at=(expires_at if expires_at.tzinfo else expires_at.replace(tzinfo=UTC)).astimezone(UTC),
        )


def parse_account_name(data: Any, *, account_number: str) -> str:
    """Read the name that an account is kept under.

    :param account_number: which the answer must be about
    :raises MalformedGatewayDataError: there is no name, or it is another account's
    """
    if not isinstance(data, dict) or data.get("account_number") != account_number:
        raise MalformedGatewayDataError("not the banking data that was asked for")
    return _require_text(data, "account_name")


def _require_text(data: Any, name: str) -> str:
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, str) or not value or len(value) > 200:
        raise MalformedGatewayDataError("not the banking data that was asked for")
    return value
