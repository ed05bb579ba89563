"""The list of banks, cached for a day, and the names of bank account holders."""

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
    """The bank has no account with this number."""

    reason = "unknown-bank-account"


@dataclass(frozen=True)
class ResolvedAccount:
    """A bank account with the holder's name."""

    account_name: str
    account_number: str
    bank_code: str
    bank_name: str


def list_banks(cache: Cache, gateway: PaymentGateway) -> list[Bank]:
    """List the supported banks by name, from the cache or the gateway.

    :raises ProviderUnavailableError: the list is not cached, and the gateway gave no usable response
    """
    try:
        entry = cache.look_up(window=None, content_key=_CACHE_KEY, tags=(BANKS_CACHE_TAG,))
    except CacheDownError:
        return gateway.list_banks()
    if entry.content is not None:
        return [Bank(**bank) for bank in orjson.loads(entry.content)]
    banks = gateway.list_banks()
    # An empty list is an error of the gateway and must not be cached.
    if banks:
        try:
            cache.store(
                content_key=_CACHE_KEY,
                version=entry.version,
                content=orjson.dumps(banks),
                ttl_seconds=24 * 60 * 60,
            )
        except CacheDownError:
            _log.warning("bank list not cached")
    return banks


def resolve_account(
    cache: Cache, gateway: PaymentGateway, *, account_number: str, bank_code: str
) -> ResolvedAccount:
    """Resolve a bank account to the holder's name.

    :param account_number: ten digits
    :param bank_code: a code from ``list_banks``
    :raises ValidationError: the bank code is unknown
    :raises UnknownBankAccountError: the bank has no account with this number
    :raises ProviderUnavailableError: the gateway gave no usable response
    """
    names = {bank.code: bank.name for bank in list_banks(cache, gateway)}
    if bank_code not in names:
        raise ValidationError.of("bankCode", "Must be a code from the list of banks.")
    holder = gateway.resolve_account_name(account_number=account_number, bank_code=bank_code)
    if holder is None:
        raise UnknownBankAccountError(
            "The bank has no account with this number.",
            invalid_params=[InvalidParam("accountNumber", f"Is not an account at {names[bank_code]}.")],
        )
    return ResolvedAccount(holder, account_number, bank_code, names[bank_code])
