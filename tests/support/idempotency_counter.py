"""A counter that accepts requests with an Idempotency-Key. Tests control the behaviour of the routes."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import uuid4

from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from blueprints.http import Context, ContractBlueprint, FinalPhase
from blueprints.http.contract import AUTHENTICATED, Idempotency, RouteLimit, SharedLimit
from blueprints.http.fields import Schema, StrictInteger, Text
from marketplace.kernel.errors import MarketplaceError, ValidationError
from marketplace.services import Services
from tests.support.probes import WAIT_SECONDS, Effects, probe_area, serve

Work = Callable[[Session], Any]


class Order(Schema):
    """A body with two fields, of which the second has a default."""

    amount = StrictInteger(minimum=1, required=True)
    note = Text(max_length=100, load_default=None)


class WrongPinError(MarketplaceError):
    """An error that keeps changes. The response is not stored."""

    code = "DELIVERY_PIN_INVALID"
    keeps_changes: ClassVar[bool] = True


class QuarantinedError(ValidationError):
    """An error that keeps changes. The response is stored."""

    keeps_changes: ClassVar[bool] = True


class Pause:
    """A point where a request waits until a test continues the request."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._go_on = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self._go_on.wait(WAIT_SECONDS)

    def wait(self) -> None:
        """Wait until a request pauses."""
        assert self.reached.wait(WAIT_SECONDS)

    def end(self) -> None:
        """Continue the waiting request."""
        self._go_on.set()


class Counter:
    """The area with written rows, clock and planned behaviour."""

    def __init__(self, services: Services) -> None:
        self.effects = Effects(services.database)
        self.now = datetime.now(UTC)
        self.calls = 0
        self.before: Callable[[], Any] | None = None
        self.after: Callable[[], Any] | None = None
        self.error: Exception | None = None
        self.services = services
        self.client = serve(services, self._declare(), clock=lambda: self.now)

    def later(self, seconds: float) -> None:
        """Move the counter's clock."""
        self.now += timedelta(seconds=seconds)

    def another_client(self) -> FlaskClient:
        """Return a client for another thread."""
        return self.client.application.test_client()

    def send(
        self,
        path: str,
        key: object,
        headers: dict[str, str],
        body: Any = None,
        client: FlaskClient | None = None,
    ) -> Any:
        """Post a body under a key, by default with an amount of 1."""
        given = headers | ({} if key is None else {"Idempotency-Key": str(key)})
        body = {"amount": 1} if body is None else body
        return (client or self.client).post(f"/api/probe/{path}", json=body, headers=given)

    def _work(self, session: Session, body: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        # Planned behaviour applies to a single request.
        before, after, error = self.before, self.after, self.error
        self.before = self.after = self.error = None
        if before is not None:
            before()
        effect = self.effects.add(session)
        if after is not None:
            after()
        if error is not None:
            raise error
        return {"effect": effect, "amount": body["amount"], "call": self.calls}

    def _declare(self) -> ContractBlueprint:
        area = probe_area()
        terms: dict[str, Any] = {"auth": AUTHENTICATED, "limit": SharedLimit.CALLER_TIER, "body": Order}

        @area.post("/required", idempotent=Idempotency.REQUIRED, status=201, **terms)
        def required(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
            return self._work(ctx.session, body)

        @area.post("/optional/<name>", idempotent=Idempotency.OPTIONAL, **terms)
        def optional(ctx: Context, name: str, body: dict[str, Any]) -> dict[str, Any]:
            return self._work(ctx.session, body) | {"name": name}

        @area.post("/unread", **terms)
        def unread(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
            return self._work(ctx.session, body)

        own = RouteLimit("1/minute", scope=f"counter-{uuid4().hex}")

        @area.post("/limited", idempotent=Idempotency.REQUIRED, **terms | {"limit": own})
        def limited(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
            return self._work(ctx.session, body)

        @area.post("/phased", idempotent=Idempotency.REQUIRED, phased=True, **terms)
        def phased(ctx: Context, body: dict[str, Any]) -> FinalPhase:
            with ctx.transaction() as session:
                self.effects.add(session)
            return FinalPhase(lambda session: self._work(session, body))

        return area
