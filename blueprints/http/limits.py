"""Rate limits: sliding windows on the shared cache, on this process's memory while the cache is gone.

``limits`` reads the quotas and keeps the windows in memory; on the cache the edge's own script counts, so
that the limit and cached content take one round trip together.
"""

import math
import time
from collections.abc import Sequence
from functools import lru_cache

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from blueprints.http.contract import Contract, RouteLimit, Shared, Tier
from blueprints.http.request_scope import Exchange, Quota, client_address
from marketplace.identity.queries import Caller
from marketplace.infra.cache import CacheDownError, Lookup, Window
from marketplace.kernel.errors import RateLimitError

_memory = MovingWindowRateLimiter(MemoryStorage())


@lru_cache(maxsize=256)
def _item(quota: str, scale: int) -> RateLimitItem:
    item = parse(quota)
    return type(item)(item.amount * scale, item.multiples)


def _tier_of(caller: Caller | None) -> Tier:
    if caller is None:
        return Tier.ANONYMOUS
    return Tier.BUYER if caller.role == "buyer" else Tier.MERCHANT


def _window(contract: Contract | None, exchange: Exchange, caller: Caller | None) -> Window | None:
    limit = contract.limit if contract else Shared.GLOBAL
    if limit is Shared.UNLIMITED:
        return None
    who = str(caller.id) if caller else client_address()
    if isinstance(limit, RouteLimit):
        quota, scope = limit.quota, limit.scope
    else:
        tier = Tier.MERCHANT if limit is Shared.VENDOR and caller else _tier_of(caller)
        quota, scope = tier.value, tier.name
    item = _item(quota, exchange.services.settings.rate_limit_scale)
    return Window(key=f"{scope}:{who}", limit=item.amount, period_seconds=item.get_expiry())


def admit(
    exchange: Exchange, *, contract: Contract | None, content_key: str = "", tags: Sequence[str] = ()
) -> Lookup | None:
    """Count a request against its limit, and look up cached content on the way.

    :param exchange: the request, its caller known
    :param contract: its route's, or none for a path without route: these count on the caller's tier
    :param content_key: the content that the route keeps in the cache, if any
    :param tags: what that content depends on
    :return: what the cache told; none when it is gone or had nothing to do
    :raises RateLimitError: the quota is used up
    """
    window = _window(contract, exchange, exchange.caller)
    if window is None and not content_key:
        return None
    found: Lookup | None = None
    try:
        found = exchange.services.cache.look_up(window=window, content_key=content_key, tags=tags)
    except CacheDownError:
        counted = _count_in_memory(window) if window else None
    else:
        counted = found
    if window and counted:
        _apply(exchange, window, counted)
    return found


def note(exchange: Exchange, *, contract: Contract | None) -> None:
    """Count a request that is refused for another reason, so that its headers are true."""
    try:
        admit(exchange, contract=contract)
    except RateLimitError:
        return


def admit_unauthenticated(exchange: Exchange) -> None:
    """Count a request whose token was refused against its address.

    :raises RateLimitError: the address's quota is used up
    """
    exchange.caller = None
    admit(exchange, contract=None)


def _count_in_memory(window: Window) -> Lookup:
    item = type(parse("1/second"))(window.limit, window.period_seconds)
    allowed = _memory.hit(item, window.key)
    stats = _memory.get_window_stats(item, window.key)
    seconds = max(stats.reset_time - time.time(), 0)
    return Lookup(allowed, window.limit - stats.remaining, seconds, "", None, claimed=False)


def _apply(exchange: Exchange, window: Window, counted: Lookup) -> None:
    seconds = max(1, math.ceil(counted.frees_in_seconds))
    exchange.quota = Quota(window.limit, max(window.limit - counted.used, 0), seconds)
    if not counted.allowed:
        raise RateLimitError(retry_after_seconds=seconds)
