"""Rate limits: sliding windows in the shared cache, or in the process's memory while the cache is unavailable.

The library ``limits`` parses quotas and keeps the windows in memory. In the cache, a script of this project counts
requests. The same round trip looks up cached content.
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from blueprints.http.context import Context, client_subnet
from blueprints.http.contract import Contract, RateLimitTier, RouteLimit, SharedLimit
from marketplace.infra.cache import CacheDownError, CacheLookup, RateLimitWindow
from marketplace.kernel.errors import RateLimitError


@cache
def _fallback_limiter() -> MovingWindowRateLimiter:
    """Return this process's limiter. Its storage starts a thread, which would not survive gunicorn's fork."""
    return MovingWindowRateLimiter(MemoryStorage())


@lru_cache(maxsize=256)
def _parse_quota(quota: str, scale: int) -> RateLimitItem:
    item = parse(quota)
    return type(item)(item.amount * scale, item.multiples)


def _build_window(context: Context, contract: Contract | None) -> RateLimitWindow | None:
    caller = context.caller
    limit = contract.limit if contract else SharedLimit.CALLER_TIER
    if limit is SharedLimit.UNLIMITED:
        return None
    client_key = str(caller.id) if caller else client_subnet()
    if isinstance(limit, RouteLimit):
        quota, scope = limit.quota, limit.scope
    else:
        tier = RateLimitTier.MERCHANT
        if caller is None:
            tier = RateLimitTier.ANONYMOUS
        elif caller.role == "buyer" and limit is not SharedLimit.MERCHANT_TIER:
            tier = RateLimitTier.BUYER
        quota, scope = tier.value, tier.name
    item = _parse_quota(quota, context.services.settings.rate_limit_scale)
    return RateLimitWindow(key=f"{scope}:{client_key}", limit=item.amount, period_seconds=item.get_expiry())


def enforce_rate_limit(
    context: Context, *, contract: Contract | None, content_key: str = "", tags: Sequence[str] = ()
) -> CacheLookup | None:
    """Count a request against the rate limit, and look up cached content in the same round trip.

    :param contract: contract of the route. None for a path without a route, which counts on the caller's tier
    :param content_key: cache key of the route's content, if any
    :param tags: cache tags of that content
    :return: result of the look-up; None if the cache is unavailable or was not needed
    :raises RateLimitError: the quota is used up
    """
    window = _build_window(context, contract)
    if window is None and not content_key:
        return None
    try:
        cached_lookup = context.services.cache.look_up(window=window, content_key=content_key, tags=tags)
    except CacheDownError:
        cached_lookup = None
    if window:
        count = cached_lookup or _count_in_memory(window)
        seconds = max(1, math.ceil(count.retry_after_seconds))
        context.rate_limit_headers = {
            "RateLimit-Limit": str(window.limit),
            "RateLimit-Remaining": str(max(window.limit - count.used, 0)),
            "RateLimit-Reset": str(seconds),
        }
        if not count.allowed:
            raise RateLimitError(retry_after_seconds=seconds)
    return cached_lookup


def count_refused_request(context: Context, *, contract: Contract | None) -> None:
    """Count a request that is refused for another reason, so that the rate-limit headers are correct.

    An exceeded limit raises no error here, because the other refusal is the response.
    """
    with suppress(RateLimitError):
        enforce_rate_limit(context, contract=contract)


def _count_in_memory(window: RateLimitWindow) -> CacheLookup:
    item = type(parse("1/second"))(window.limit, window.period_seconds)
    limiter = _fallback_limiter()
    allowed = limiter.hit(item, window.key)
    stats = limiter.get_window_stats(item, window.key)
    seconds = max(stats.reset_time - time.time(), 0)
    return CacheLookup(allowed, window.limit - stats.remaining, seconds, "", None, must_compute=False)
