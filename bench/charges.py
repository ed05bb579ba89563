"""The part ``charge``: events in the inbox are processed, and each pays an order."""

from collections.abc import Iterator
from uuid import UUID

import psycopg2

from bench.data import Sizes, charge_id, charged_product, reference, row_id
from bench.figures import Target
from bench.load import Call, request
from bench.parts import Part, http_side
from bench.recording import Recorded
from bench.stand import INBOX_PATH, Stand
from bench.statements import Floor, floor_of
from bench.writes import Exchanges
from marketplace.ledger.accounts import wallet

_RECORDED = 2  # the last events, reserved for recording the floor's SQL


class Charges:
    """A builder of the part. Each event is used once, so numbers continue over all rounds."""

    def __init__(self, stand: Stand, *, clients: int, sizes: Sizes) -> None:
        """Describe the load.

        :param clients: number of concurrent requests
        """
        self._stand = stand
        self._clients = clients
        self._sizes = sizes
        self._unused = iter(range(sizes.charged - _RECORDED))

    def recorded_calls(self) -> Exchanges:
        """Return the calls that record the floor's SQL."""
        last = self._sizes.charged - 1
        return {
            "charge": [
                ("POST", f"{INBOX_PATH}?{row_id('event', number)}", {}, "")
                for number in range(last - 1, last + 1)
            ]
        }

    def floor(self, recorded: Recorded) -> Floor:
        """Build the floor from the recorded SQL of an event."""
        last = self._sizes.charged - 1
        replacements = {text: name for name, text in self._values(last).items()}
        return floor_of(recorded, replacements, new_id=self._transaction_of(last))

    def part(self) -> Part:
        """Build the part."""

        def figure() -> Iterator[Call]:
            for number in self._unused:
                yield Call("", request("POST", f"{INBOX_PATH}?{row_id('event', number)}"))

        def bare() -> Iterator[Call]:
            for number in self._unused:
                query = "&".join(f"{name}={value}" for name, value in self._values(number).items())
                yield Call("", request("GET", f"/statements?charge&{query}"))

        return Part(
            "charge",
            http_side(self._stand, "charge applied", server="charging", calls=figure, clients=self._clients),
            (
                http_side(
                    self._stand,
                    "the same SQL, bare HTTP",
                    server="floors",
                    calls=bare,
                    clients=self._clients,
                ),
            ),
            Target(share=0.5, p95_ms=20),
        )

    def _values(self, number: int) -> dict[str, str]:
        buyer = UUID(row_id("buyer", number % self._sizes.buyers))
        return {
            "event": row_id("event", number),
            "intent": row_id("intent", number),
            "reference": reference(number),
            "charge": str(charge_id(number)),
            "order": row_id("charged", number),
            "wallet": str(wallet(buyer).id),
            "product": row_id("product", charged_product(number, products=self._sizes.products)),
        }

    def _transaction_of(self, number: int) -> str:
        """Find the ledger transaction of an applied charge."""
        connection = psycopg2.connect(self._stand.database.url, connect_timeout=5)
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT id::text FROM ledger_transactions WHERE kind = 'payment' AND source = %s",
                    (f"charge:{charge_id(number)}",),
                )
                ((found,),) = cursor.fetchall()
                return str(found)
        finally:
            connection.close()
