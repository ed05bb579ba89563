"""Rate limits: declared with Flask-Limiter, and enforced at the edge's place in the order of checks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from flask import Flask, current_app
from flask_limiter import Limiter, RateLimitExceeded, RouteLimit as DeclaredLimit
from flask_limiter.util import get_qualified_name
from limits import RateLimitItem, parse

from blueprints.http.context import Context, client_subnet, current_context
from blueprints.http.contract import Contract, RateLimitTier, RouteLimit, SharedLimit
from blueprints.http.limit_storage import STORAGE_URI, STRATEGY
from marketplace.infra.cache import CacheDownError, CacheLookup
from marketplace.kernel.errors import RateLimitError
from marketplace.services import Services

_EXTENSION = "rate_limits"


class EdgeLimit(DeclaredLimit):
    """A limit of Flask-Limiter that is cheap to enter: ``with limit:`` counts the current request.

    The library's own check resolves the limits of the endpoint, the blueprint and the line of code at each request,
    for which the library inspects the stack. A contract names its limit, so there is nothing to resolve.
    """

    def __post_init__(self, limiter: Limiter) -> None:
        """Parse the quota once."""
        super().__post_init__(limiter)
        (self._parsed,) = super().__iter__()

    def __iter__(self) -> Iterator[Any]:
        return iter((self._parsed,))

    def __enter__(self) -> None:
        # In the library's order, so that its commands find the windows.
        if not self.limiter.limiter.hit(self._parsed.limit, self.limit_by(), self._parsed.scope):
            raise RateLimitExceeded(self._parsed)

    @property
    def applies(self) -> bool:
        """Whether the limit applies to the current request's caller."""
        return self.exempt_when is None or not self.exempt_when()


class RateLimits:
    """The limits of an application. Each limit is declared once, through one ``flask_limiter.Limiter``."""

    def __init__(self, services: Services) -> None:
        """Declare the tiers.

        :param services: the cache counts requests; the settings scale all quotas
        """
        self._scale = services.settings.rate_limit_scale
        self._limiter = Limiter(
            client_key,
            storage_uri=STORAGE_URI,
            storage_options={"cache": services.cache},  # type: ignore[dict-item] # the storage takes the object
            strategy=STRATEGY,
            headers_enabled=False,
        )
        anonymous = self._tier(RateLimitTier.ANONYMOUS, exempt_when=is_signed_in)
        self._caller_tier = (
            anonymous,
            self._tier(RateLimitTier.BUYER, exempt_when=is_no_buyer),
            self._tier(RateLimitTier.MERCHANT, exempt_when=is_buyer_or_anonymous),
        )
        self._merchant_tier = (anonymous, self._tier(RateLimitTier.MERCHANT, exempt_when=is_anonymous))
        self._of_routes: dict[RouteLimit, tuple[EdgeLimit, ...]] = {}
        for tier in (RateLimitTier.SENSITIVE, RateLimitTier.ASSISTANT):
            self.of(RouteLimit(tier.value, scope=tier.name))

    def _tier(self, tier: RateLimitTier, *, exempt_when: Callable[[], bool] | None = None) -> EdgeLimit:
        return self._declare(tier.value, scope=tier.name, exempt_when=exempt_when)

    def _declare(self, quota: str, *, scope: str, exempt_when: Callable[[], bool] | None = None) -> EdgeLimit:
        return EdgeLimit(
            limit_provider=str(_scale_quota(quota, self._scale)),
            limiter=self._limiter,
            shared=True,
            scope=scope,
            key_function=client_key,
            exempt_when=exempt_when,
            override_defaults=True,
        )

    def of(self, limit: SharedLimit | RouteLimit) -> tuple[EdgeLimit, ...]:
        """Return the declared limits of a route, of which one applies to each caller.

        Routes without a limit have none.
        """
        if limit is SharedLimit.CALLER_TIER:
            return self._caller_tier
        if limit is SharedLimit.MERCHANT_TIER:
            return self._merchant_tier
        if limit is SharedLimit.UNLIMITED:
            return ()
        if limit not in self._of_routes:
            self._of_routes[limit] = (self._declare(limit.quota, scope=limit.scope),)
        return self._of_routes[limit]

    def install(self, app: Flask, *, unlimited_views: frozenset[str]) -> None:
        """Connect the limits with an application whose routes are complete.

        ``flask limiter limits`` lists the limits by view.

        :param unlimited_views: endpoints without contract that are not limited; the others count on the caller's tier
        """
        # A limiter that is already listed adds no hooks to the application. The hooks would check each request before
        # the edge does, and write the library's headers, which are off.
        app.extensions.setdefault("limiter", set()).add(self._limiter)
        self._limiter.init_app(app)
        app.extensions[_EXTENSION] = self
        for endpoint, view in app.view_functions.items():
            contract: Contract | None = getattr(view, "contract", None)
            limits = self.of(contract.limit if contract else SharedLimit.CALLER_TIER)
            if not limits or endpoint in unlimited_views:
                self._limiter.exempt(view)
            else:
                for limit in limits:
                    self._limiter.limit_manager.add_decorated_limit(get_qualified_name(view), limit)


def _scale_quota(quota: str, scale: int) -> RateLimitItem:
    item = parse(quota)
    return type(item)(item.amount * scale, item.multiples)


def client_key() -> str:
    """Return the key that a request is counted by: the user, or the address of an anonymous caller."""
    user_id = current_context().token_user_id
    return str(user_id) if user_id else client_subnet()


def is_anonymous() -> bool:
    """Return whether the request has no valid token."""
    return current_context().token_user_id is None


def is_signed_in() -> bool:
    """Return whether the request has a valid token."""
    return current_context().token_user_id is not None


def is_no_buyer() -> bool:
    """Return whether the caller is anonymous or known to be more than a buyer."""
    context = current_context()
    return context.caller.role != "buyer" if context.caller else context.token_user_id is None


def is_buyer_or_anonymous() -> bool:
    """Return whether the caller is a buyer, anonymous or unknown."""
    caller = current_context().caller
    return caller is None or caller.role == "buyer"


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
    rate_limits: RateLimits = current_app.extensions[_EXTENSION]
    context.content_key, context.content_tags, context.cache_lookup = content_key, tags, None
    limits = rate_limits.of(contract.limit if contract else SharedLimit.CALLER_TIER)
    if limits:
        try:
            with next(limit for limit in limits if limit.applies):
                return context.cache_lookup
        except RateLimitExceeded as error:
            seconds = int(context.rate_limit_headers["RateLimit-Reset"])
            raise RateLimitError(retry_after_seconds=seconds) from error
    if content_key:
        with suppress(CacheDownError):
            return context.services.cache.look_up(window=None, content_key=content_key, tags=tags)
    return None


def count_refused_request(context: Context, *, contract: Contract | None) -> None:
    """Count a request that is refused for another reason, so that the rate-limit headers are correct.

    An exceeded limit raises no error here, because the other refusal is the response.
    """
    with suppress(RateLimitError):
        enforce_rate_limit(context, contract=contract)


def return_slot(context: Context) -> None:
    """Return the slot of a refused request to a quota per hour or longer."""
    if context.returnable_window is None:
        return
    with suppress(CacheDownError):
        context.services.cache.return_slot(context.returnable_window)
        remaining = int(context.rate_limit_headers["RateLimit-Remaining"])
        context.rate_limit_headers["RateLimit-Remaining"] = str(remaining + 1)
    context.returnable_window = None
