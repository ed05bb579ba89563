"""Parts that read by GET requests, with the recorded SQL of the same requests as the floor."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg2

from bench import data
from bench.figures import Target
from bench.load import Call, request
from bench.parts import Part, Side, http_side
from bench.recording import Recorded
from bench.stand import Stand
from bench.statements import Floor, floor_of


@dataclass(frozen=True)
class RecordedRead:
    """A part whose requests differ in a number, such as that of a person.

    :param path: the path of the request with a number
    :param headers: the headers of the request with a number
    :param varying: the ids that differ in the SQL of the request with a number, by the names of the floor's values
    :param numbers: generates numbers; figure and floor get the same ones
    :param recorded_number: the number of the recorded request
    """

    name: str
    title: str
    target: Target
    path: Callable[[int], str]
    headers: Callable[[int], dict[str, str]]
    varying: Callable[[int], dict[str, str]]
    numbers: Callable[[], Iterator[int]]
    recorded_number: int = 0


class RecordedReads:
    """A builder of parts from reads."""

    def __init__(self, stand: Stand, reads: Sequence[RecordedRead], *, clients: int) -> None:
        """Create the builder.

        :param clients: number of concurrent requests
        """
        self._stand, self._reads, self._clients = stand, reads, clients

    def recorded_calls(self) -> dict[str, list[tuple[str, str, dict[str, str], str]]]:
        """Return the calls that record the floors' SQL, two for each floor."""
        return {
            read.name: [("GET", read.path(read.recorded_number), read.headers(read.recorded_number), "")] * 2
            for read in self._reads
        }

    def floors(self, recorded: dict[str, Recorded]) -> dict[str, Floor]:
        """Build the floors from the recorded SQL."""
        return {
            read.name: floor_of(
                recorded[read.name], {value: key for key, value in read.varying(read.recorded_number).items()}
            )
            for read in self._reads
        }

    def parts(self) -> list[Part]:
        """Build all parts."""
        return [self._part(read) for read in self._reads]

    def _part(self, read: RecordedRead) -> Part:
        def figure() -> Iterator[Call]:
            for number in read.numbers():
                yield Call("", request("GET", read.path(number), headers=read.headers(number)))

        def bare() -> Iterator[Call]:
            for number in read.numbers():
                values = "".join(f"&{key}={value}" for key, value in read.varying(number).items())
                yield Call("", request("GET", f"/statements?{read.name}{values}"))

        floor = self._side("the same SQL, bare HTTP", "floors", bare)
        return Part(read.name, self._side(read.title, "web", figure), (floor,), read.target)

    def _side(self, title: str, server: str, calls: Callable[[], Iterator[Call]]) -> Side:
        return http_side(self._stand, title, server=server, calls=calls, clients=self._clients)


def load_rows(url: str, statements: Sequence[str], values: dict[str, Any], *, seconds: int) -> None:
    """Load rows in one transaction.

    Foreign keys and triggers are disabled on this connection, because millions of checks would take minutes.

    :param url: of the migrated database with the data of ``bench.data``
    :param seconds: time limit of a statement
    """
    connection = psycopg2.connect(url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = '{seconds}s'")
            cursor.execute("SET session_replication_role = replica")
            data.create_id_functions(cursor)
            for statement in statements:
                cursor.execute(statement, values)
    finally:
        connection.close()
