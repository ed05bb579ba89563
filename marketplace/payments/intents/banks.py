"""Banks and the names of their account holders; the list of banks is cached for a day."""

from dataclasses import dataclass

import orjson
import structlog

from marketplace.infra.cache import Cache, CacheDownError
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.providers.gateway.payloads import Bank
from marketplace.providers.gateway.payments import PaymentGateway

_log = structlog.get_logger(__name__)

BANKS_CACHE_TAG = "banks"
_CACHE_KEY = "banks"


class UnknownBankAccountError(ValidationError):
    """The bank or the gateway does not know the account."""

    reason = "unknown-bank-account"


@dataclass(frozen=True)
class ResolvedAccount:
    """A bank account with its holder's name."""

    account_name: str
    account_number: str
    bank_code: str
    bank_name: str


def list_banks(cache: Cache, gateway: PaymentGateway) -> list[Bank]:
    """List the banks that accounts can be at, by name; the gateway is asked once a day.

    :raises ProviderUnavailableError: nothing is kept, and the gateway gave no usable answer
    """
    try:
        entry = cache.look_up(window=None, content_key=_CACHE_KEY, tags=(BANKS_CACHE_TAG,))
    except CacheDownError:
        return gateway.list_banks()
    if entry.content is not None:
        return [Bank(**bank) for bank in orjson.loads(entry.content)]
    banks = gateway.list_banks()
    # An empty list is a fault of the gateway, not to be cached for a day.
    if banks:
        try:
            cache.store(
                content_key=_CACHE_KEY,
                version=entry.version,
                content=orjson.dumps(banks),
                ttl_seconds=24 * 60 * 60,
            )
        except CacheDownError:
            _log.warning("list of banks not kept")
    return banks


def resolve_account(
    cache: Cache, gateway: PaymentGateway, *, account_number: str, bank_code: str
) -> ResolvedAccount:
    """Resolve a bank account to its holder's name.

    :param account_number: ten digits
    :param bank_code: of a bank of the list
    :raises ValidationError: the bank does not exist
    :raises UnknownBankAccountError: the bank does not know the account
    :raises ProviderUnavailableError: the gateway gave no usable answer
    """
    names = {bank.code: bank.name for bank in list_banks(cache, gateway)}
    if bank_code not in names:
        raise ValidationError.of("bankCode", "Is not the code of a bank; see the list of banks.")
    holder = gateway.resolve_account_name(account_number=account_number, bank_code=bank_code)
    if holder is None:
        raise UnknownBankAccountError(
            "The bank does not know this account.",
            invalid_params=[InvalidParam("accountNumber", f"Is not an account at {names[bank_code]}.")],
        )
    return ResolvedAccount(holder, account_number, bank_code, names[bank_code])
