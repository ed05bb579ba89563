"""The storage and the strategy of Flask-Limiter's limits, registered with the library ``limits``.

The storage is the shared cache. The strategy counts a request and looks up cached content in one round trip.
"""

import math
import time
from functools import cached_property

from limits import RateLimitItem
from limits.storage import MemoryStorage, Storage
from limits.strategies import STRATEGIES, MovingWindowRateLimiter

from blueprints.http.context import current_context
from marketplace.infra.cache import Cache, CacheDownError, CacheLookup, RateLimitWindow

STORAGE_URI = "marketplace-cache://"
STRATEGY = "moving-window-with-content"
# Quotas with a longer period return the slot of a refused request. A typing mistake would cost the client an hour.
_RETURNING_PERIOD_SECONDS = 3600


class CacheStorage(Storage):
    """Moving windows in the shared cache."""

    STORAGE_SCHEME = [STORAGE_URI.removesuffix("://")]  # noqa: RUF012 - declared by the base class

    def __init__(self, uri: str | None = None, wrap_exceptions: bool = False, *, cache: Cache) -> None:
        """Use the application's cache, which has its own connections and cool-down.

        :param uri: the scheme selects this class; there is nothing else to configure
        """
        super().__init__(uri, wrap_exceptions)
        self.storage = cache

    @property
    def base_exceptions(self) -> type[Exception]:
        """The error of an unavailable cache."""
        return CacheDownError

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return the time at which the window starts, and the number of requests in the window."""
        window = RateLimitWindow(key, limit, expiry)
        found = self.storage.look_up(window=window, count_request=False)
        return time.time() + found.retry_after_seconds - expiry, found.used

    def clear(self, key: str) -> None:
        """Remove a window."""
        self.storage.remove_window(key)

    def check(self) -> bool:
        """Return whether the cache responds."""
        try:
            self.storage.ping()
        except CacheDownError:
            return False
        return True

    def reset(self) -> int | None:
        """Refuse to remove all windows: the cache also holds content and queues."""
        raise NotImplementedError("remove windows by key")

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Refuse to count in fixed windows, which this storage does not have."""
        raise NotImplementedError("the storage has only moving windows")

    def get(self, key: str) -> int:
        """Refuse to read a fixed window, which this storage does not have."""
        raise NotImplementedError("the storage has only moving windows")

    def get_expiry(self, key: str) -> float:
        """Refuse to read a fixed window, which this storage does not have."""
        raise NotImplementedError("the storage has only moving windows")


class WindowWithContent(MovingWindowRateLimiter):
    """Moving windows whose round trip also looks up the request's cached content.

    While the cache is unavailable, the strategy counts in the memory of the process. Flask-Limiter's own fallback
    would return to a recovered cache only after up to 32 seconds.
    """

    storage: CacheStorage

    @cached_property
    def _in_memory(self) -> MovingWindowRateLimiter:
        # The memory storage starts a thread, which would not survive gunicorn's fork.
        return MovingWindowRateLimiter(MemoryStorage())

    def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Count a request, and record the window's state and the cached content in the request's context.

        :param cost: always 1
        """
        context = current_context()
        window = RateLimitWindow(item.key_for(*identifiers), item.amount, item.get_expiry())
        try:
            count = context.cache_lookup = self.storage.storage.look_up(
                window=window, content_key=context.content_key, tags=context.content_tags
            )
        except CacheDownError:
            count, context.cache_lookup = self._count_in_memory(item, *identifiers), None
        if count.allowed and context.cache_lookup and window.period_seconds >= _RETURNING_PERIOD_SECONDS:
            context.returnable_window = window
        context.rate_limit_headers = {
            "RateLimit-Limit": str(window.limit),
            "RateLimit-Remaining": str(max(window.limit - count.used, 0)),
            "RateLimit-Reset": str(max(1, math.ceil(count.retry_after_seconds))),
        }
        return count.allowed

    def _count_in_memory(self, item: RateLimitItem, *identifiers: str) -> CacheLookup:
        allowed = self._in_memory.hit(item, *identifiers)
        stats = self._in_memory.get_window_stats(item, *identifiers)
        seconds = max(stats.reset_time - time.time(), 0)
        return CacheLookup(allowed, item.amount - stats.remaining, seconds, "", None, must_compute=False)


STRATEGIES[STRATEGY] = WindowWithContent
