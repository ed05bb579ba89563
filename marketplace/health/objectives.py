"""The service objectives, and the signals that count for each.

The targets are from the section "Service objectives" of the interface specification.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from marketplace.kernel.signals import BUCKETS_MS, COUNT, Key

GOOD, BAD = -1, -2  # the buckets of objectives without a latency
HTTP, FIRST_TOKEN, ESCROW, DEADLOCK = "http", "first_token", "escrow", "deadlock"
PAINT, INTERACTION = "page_paint", "page_interaction"

_STOREFRONT = (
    "GET /api/products",
    "GET /api/vendors",
    "GET /api/flash-sales",
    "GET /api/banners",
    "GET /api/vibes",
)
_CHECKOUT = (
    "POST /api/orders/checkout",
    "POST /api/orders",
    "POST /api/payments/initialize",
    "POST /api/payments/verify",
)
_WEBHOOKS = (
    "POST /api/payments/webhook",
    "POST /api/whatsapp/webhook",
    "POST /functions/v1/<string:gateway>-webhook",
)


@dataclass(frozen=True)
class Objective:
    """A service objective.

    :ivar target: the fraction of the events that must be good
    :ivar window: the time over which the target holds
    :ivar threshold_ms: the longest duration of a good event, a bound of ``BUCKETS_MS``; none without a latency
    """

    name: str
    title: str
    target: float
    window: timedelta
    threshold_ms: int | None = None

    @property
    def error_budget(self) -> float:
        """The fraction of the events that may be bad."""
        return round(1 - self.target, 8)  # 1 - 0.99 is more than 0.01 in floating point

    def is_good(self, bucket: int) -> bool:
        """Return whether the events of a bucket are good."""
        if self.threshold_ms is None:
            return bucket == GOOD
        return 0 <= bucket <= BUCKETS_MS.index(self.threshold_ms)


_MONTH, _DAY = timedelta(days=30), timedelta(days=1)
OBJECTIVES: Mapping[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective("availability", "Availability of storefront and checkout", 0.999, _MONTH),
        Objective("checkout_success", "Checkout success", 0.9995, _MONTH),
        Objective("payment_intent_latency", "Creation of payment intents, p95", 0.95, _MONTH, 600),
        Objective("product_query_latency", "Product queries, p95", 0.95, _MONTH, 250),
        Objective("escrow_transitions", "Escrow transitions without deadlock", 0.9999, _MONTH),
        Objective("assistant_first_token", "First token of the assistant, p90", 0.90, _MONTH, 800),
        Objective("webhook_latency", "Ingestion of webhooks, p99", 0.99, _MONTH, 200),
        Objective("error_rate", "Requests without server error", 0.9995, _DAY),
        Objective("page_paint", "Largest contentful paint, p75", 0.75, _MONTH, 2_200),
        Objective("page_interaction", "Interaction to next paint, p75", 0.75, _MONTH, 150),
    )
}


def count_for_objectives(key: Key) -> Iterator[tuple[str, int]]:
    """Yield the objectives that a key counts for, each with the bucket."""
    if key.signal == HTTP:
        route, _, status = key.label.rpartition(" ")
        yield from _count_request(route, status, key.bucket)
    elif key.signal == FIRST_TOKEN:
        yield "assistant_first_token", key.bucket
    elif key.signal in (PAINT, INTERACTION):
        yield key.signal, key.bucket
    elif key.signal in (ESCROW, DEADLOCK) and key.bucket == COUNT:
        # A deadlock does not tell its cause, so every deadlock counts as a bad event.
        yield "escrow_transitions", GOOD if key.signal == ESCROW else BAD


def _count_request(route: str, status: str, bucket: int) -> Iterator[tuple[str, int]]:
    """Yield the objectives of a request.

    :param route: the method and the template of the path
    :param status: the class of the status, such as ``2xx``
    """
    if route.startswith(("GET /health", "HEAD /health")):
        return
    outcome = BAD if status == "5xx" else GOOD
    yield "error_rate", outcome
    if route in _CHECKOUT:
        yield "checkout_success", outcome
    if route in _CHECKOUT or route.startswith(_STOREFRONT):
        yield "availability", outcome
    if route == "POST /api/payments/intent":
        yield "payment_intent_latency", bucket
    if route.startswith("GET /api/products"):
        yield "product_query_latency", bucket
    if route in _WEBHOOKS:
        yield "webhook_latency", bucket
