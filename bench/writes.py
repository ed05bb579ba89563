"""Parts that write: order placing, PIN verification, webhook ingest and payment initialization."""

import hashlib
import hmac
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import orjson

from bench import pgbench
from bench.data import (
    CAMPUSES,
    FIRST_NUMBER,
    RELEASING_STORES,
    SOLD_OUT_EVERY,
    Sizes,
    charge_event,
    row_id,
)
from bench.figures import Run, Target
from bench.load import Call, request
from bench.parts import Part, Side, http_side
from bench.recording import Recorded
from bench.stand import Stand
from bench.statements import Floor, floor_of
from marketplace.ledger.accounts import vendor_payable
from marketplace.orders.pin import delivery_pin

Exchanges = dict[str, list[tuple[str, str, dict[str, str], str]]]
"""Pairs of requests (method, target, headers and body) by name."""

_ORDERS_OF_BUYER = 5
# Accounts have a limit of unpaid orders. This share of the buyers places the application's orders. The others
# place the floors' orders, which have no limit.
_APPLICATION_SHARE = 0.4
_PROBE_TRANSACTIONS = 25
# Without a pause, the clients would mostly measure queueing: for the single gevent process, and for the processors,
# which the sandbox gateway uses too.
_PAUSE_SECONDS = 0.1


class Writes:
    """A builder of the parts that write. Each order is used once, so numbers continue over all rounds."""

    def __init__(self, stand: Stand, *, directory: Path, clients: int, sizes: Sizes) -> None:
        """Create the access tokens of all users.

        :param directory: for pgbench's files
        :param clients: number of concurrent calls
        """
        self._stand = stand
        self._directory = directory
        self._clients = clients
        self._sizes = sizes
        self._even_products = sizes.products - sizes.products % CAMPUSES
        campus = (sizes.buyers - 1) % CAMPUSES
        self._recorded_products = (campus + CAMPUSES, campus + 2 * CAMPUSES)
        self._shipped = 0
        self._placed = 0
        self._payable = itertools.count()
        self._application_buyers = int(sizes.buyers * _APPLICATION_SHARE)
        self._merchant_tokens = [self._token("merchant", number) for number in range(RELEASING_STORES)]
        self._payer_tokens = [
            self._token("buyer", number) for number in range(min(sizes.payable, sizes.buyers))
        ]
        self._buyer_tokens = [self._token("buyer", number) for number in range(self._application_buyers)]

    def _token(self, kind: str, number: int) -> str:
        return self._stand.identity.token(row_id(kind, number))

    # The floors' SQL is recorded from the last orders and the last buyer, which no figure uses.

    def recorded_calls(self) -> Exchanges:
        """Return the calls that record the floors' SQL, each a pair by the same store or buyer."""
        last, buyer = self._sizes.shipped - 1, self._sizes.buyers - 1
        headers = {"Authorization": f"Bearer {self._token('buyer', buyer)}"}
        return {
            "release": [self._release(number) for number in (last - RELEASING_STORES, last)],
            "place": [
                ("POST", "/api/orders", headers, self._order_body(product))
                for product in self._recorded_products
            ],
        }

    def release_floor(self, recorded: Recorded) -> Floor:
        """Build the floor of PIN verification from the recorded SQL."""
        order = self._sizes.shipped - 1
        store = order % RELEASING_STORES
        return floor_of(
            recorded,
            {
                row_id("shipped", order): "order",
                row_id("merchant", store): "merchant",
                _account(store): "account",
            },
        )

    def place_floor(self, recorded: Recorded) -> Floor:
        """Build the floor of order placing from the recorded SQL."""
        return floor_of(
            recorded,
            {
                row_id("buyer", self._sizes.buyers - 1): "buyer",
                row_id("product", self._recorded_products[1]): "product",
            },
            new_id=recorded.answer["id"],
        )

    def parts(self, *, place: Floor, release: Floor) -> list[Part]:
        """Build all parts that write.

        :param place: the SQL of order placing
        :param release: the SQL of PIN verification
        """
        return [
            self._placing(place),
            self._ingest(),
            self._releasing(release),
            *self._initialisation(),
        ]

    def _side(self, title: str, server: str, calls: Callable[[], Iterator[Call]]) -> Side:
        return http_side(self._stand, title, server=server, calls=calls, clients=self._clients)

    def _placing(self, floor: Floor) -> Part:
        def figure() -> Iterator[Call]:
            for number in self._numbers("_placed"):
                buyer = number % self._application_buyers
                headers = {"Authorization": f"Bearer {self._buyer_tokens[buyer]}"}
                body = self._order_body(self._product(number, buyer)).encode()
                yield Call("", request("POST", "/api/orders", body=body, headers=headers))

        def bare() -> Iterator[Call]:
            for number in self._numbers("_placed"):
                buyer = self._floor_buyer(number)
                product = self._product(number, buyer)
                query = f"place&buyer={row_id('buyer', buyer)}&product={row_id('product', product)}"
                yield Call("", request("GET", f"/statements?{query}"))

        others = self._sizes.buyers - self._application_buyers
        settings = [
            r"\set n :first + :i * :clients + :client_id",
            rf"\set buyer {FIRST_NUMBER + self._application_buyers} + :n % {others}",
            rf"\set p (:n * 37) % {self._even_products}",
            rf"\set p :p - :p % {CAMPUSES} + :buyer % {CAMPUSES}",
            rf"\set product {FIRST_NUMBER} + :p + (CASE WHEN :p % {SOLD_OUT_EVERY} = 0 THEN {CAMPUSES} ELSE 0 END)",
        ]
        values = {"buyer": _textual("buyer"), "product": _textual("product")}
        return Part(
            "placing",
            self._side("order placing", "web", figure),
            (
                self._side("the same SQL, bare HTTP", "floors", bare),
                self._pgbench(floor, settings, values, "_placed"),
            ),
            Target(p95_ms=40),
        )

    def _releasing(self, floor: Floor) -> Part:
        def figure() -> Iterator[Call]:
            for number in self._numbers("_shipped"):
                method, target, headers, body = self._release(number)
                yield Call("", request(method, target, body=body.encode(), headers=headers))

        def bare() -> Iterator[Call]:
            for number in self._numbers("_shipped"):
                store = number % RELEASING_STORES
                values = {
                    "order": row_id("shipped", number),
                    "merchant": row_id("merchant", store),
                    "account": _account(store),
                }
                query = "&".join(f"{name}={value}" for name, value in values.items())
                yield Call("", request("GET", f"/statements?release&{query}"))

        settings = [
            r"\set n :first + :i * :clients + :client_id",
            rf"\set s :n % {RELEASING_STORES}",
            rf"\set order {FIRST_NUMBER} + :n",
            rf"\set merchant {FIRST_NUMBER} + :s",
        ]
        accounts = ", ".join(_account(store) for store in range(RELEASING_STORES))
        values = {
            "order": _textual("shipped", "order"),
            "merchant": _textual("merchant"),
            "account": f"(CAST(ARRAY[{accounts}] AS uuid[]))[:s + 1]",
        }
        return Part(
            "pin",
            self._side("PIN verification", "web", figure),
            (
                self._side("the same SQL, bare HTTP", "floors", bare),
                self._pgbench(floor, settings, values, "_shipped"),
            ),
            Target(share=0.5, p95_ms=20),
        )

    def _ingest(self) -> Part:
        secret = self._stand.gateway_secret.encode()
        # Numbers after those of existing payments.
        numbers = itertools.count(self._sizes.charged)

        def calls(target: str) -> Iterator[Call]:
            for number in numbers:
                body = charge_event(number)
                headers = {"x-gateway-signature": hmac.digest(secret, body, hashlib.sha512).hex()}
                yield Call("", request("POST", target, body=body, headers=headers))

        return Part(
            "ingest",
            self._side("webhook ingest", "web", lambda: calls("/api/payments/webhook")),
            (self._side("HMAC, INSERT, enqueue, bare", "floors", lambda: calls("/ingest")),),
            Target(share=0.6, p99_ms=20, longest_ms=500),
        )

    def payments(self) -> Iterator[Call]:
        """Generate requests that initialize payments, each for a different order."""
        for number in itertools.islice(self._payable, self._sizes.payable):
            key = str(uuid4())
            headers = {
                "Authorization": f"Bearer {self._payer_tokens[number % self._sizes.buyers]}",
                "Idempotency-Key": str(uuid4()),
                "X-Request-ID": key,
            }
            body = orjson.dumps({"orderId": row_id("payable", number)})
            yield Call(key, request("POST", "/api/payments/initialize", body=body, headers=headers))

    def _initialisation(self) -> list[Part]:
        def own_seconds(run: Run) -> list[float]:
            asked = _gateway_seconds(self._stand.log("waiting"))
            return [seconds - asked[key] for key, seconds in run.timings if key in asked]

        paused = http_side(
            self._stand,
            f"payment initialisation, {_PAUSE_SECONDS * 1000:.0f} ms apart",
            server="waiting",
            calls=self.payments,
            clients=self._clients,
            pause_seconds=_PAUSE_SECONDS,
        )
        return [
            Part("initialise", paused, target=Target(own_p95_ms=25), own_seconds=own_seconds),
            Part(
                "initialise-flat-out",
                self._side("payment initialisation, without pauses", "waiting", self.payments),
                own_seconds=own_seconds,
            ),
        ]

    def _pgbench(self, floor: Floor, settings: list[str], values: dict[str, str], counter: str) -> Side:
        content = pgbench.script(
            settings=settings,
            prepared=floor.prepared,
            statements=floor.statements,
            values=values,
            captures=floor.captures,
        )
        rate = 0.0

        def load(seconds: float) -> Run:
            nonlocal rate
            # pgbench stops after a number of transactions, not after a time. The rate of the previous round gives
            # the number.
            wanted = int(rate * seconds / self._clients) or _PROBE_TRANSACTIONS
            wanted = min(wanted, (self._most(counter) - getattr(self, counter)) // self._clients)
            if wanted <= 0:
                return Run()
            first = getattr(self, counter)
            setattr(self, counter, first + wanted * self._clients)
            run = pgbench.run(
                self._stand.database,
                self._directory,
                content,
                clients=self._clients,
                transactions=wanted,
                first=first,
                cpu=lambda: self._stand.cpu("web").database,
            )
            rate = run.per_second
            return run

        return Side("the same SQL, pgbench", load)

    def _numbers(self, counter: str) -> Iterator[int]:
        """Continue counting after the previous round until all rows are used."""
        while getattr(self, counter) < self._most(counter):
            number: int = getattr(self, counter)
            setattr(self, counter, number + 1)
            yield number

    def _most(self, counter: str) -> int:
        """Return the number of usable rows. The last shipped orders are reserved for recording."""
        if counter == "_shipped":
            return self._sizes.shipped - 2 * RELEASING_STORES
        return self._application_buyers * _ORDERS_OF_BUYER

    def _release(self, number: int) -> tuple[str, str, dict[str, str], str]:
        order = row_id("shipped", number)
        pin = delivery_pin(key=self._stand.pin_key, order_id=UUID(order), counter=0)
        token = self._merchant_tokens[number % RELEASING_STORES]
        headers = {"Authorization": f"Bearer {token}"}
        return "POST", f"/api/orders/{order}/verify-code", headers, json.dumps({"pin": pin})

    def _floor_buyer(self, number: int) -> int:
        return self._application_buyers + number % (self._sizes.buyers - self._application_buyers)

    def _product(self, number: int, buyer: int) -> int:
        """Choose a product of the buyer's campus that is in stock."""
        product = number * 37 % self._even_products
        product += buyer % CAMPUSES - product % CAMPUSES
        return product + CAMPUSES if product % SOLD_OUT_EVERY == 0 else product

    @staticmethod
    def _order_body(product: int) -> str:
        return json.dumps({"items": [{"productId": row_id("product", product), "quantity": 1}]})


def _textual(kind: str, variable: str = "") -> str:
    """Build an id for pgbench, which substitutes variables anywhere in the text."""
    return row_id(kind, 0).removesuffix(str(FIRST_NUMBER)) + f":{variable or kind}"


def _account(store: int) -> str:
    return f"'{vendor_payable(UUID(row_id('store', store))).id}'"


def _gateway_seconds(log: Path) -> dict[str, float]:
    """Read the duration of gateway calls by request id from the application's log."""
    found: dict[str, float] = {}
    with log.open("rb") as lines:
        for line in lines:
            if b'"provider called"' in line:
                fields = orjson.loads(line)
                found[fields["requestId"]] = fields["durationMs"] / 1000
    return found
