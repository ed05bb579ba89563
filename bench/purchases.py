"""Measure whole purchases on the complete stack (``python -m bench.purchases``).

A purchase is placed, initialized, paid at the sandbox gateway, moved to escrow by the webhook, accepted, shipped and
released by PIN. All requests go through the proxy. The command starts the stack of this checkout, and with
``--before`` the stack of another checkout, and puts both under load in turns.
"""

import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import click
import orjson

from bench import report
from bench.figures import percentile
from bench.parts import MOST_TRIES
from bench.processes import Foreign, processor_seconds
from marketplace.kernel.env_file import parse_variables
from sandbox.configuration import ENVIRONMENT_FILE
from sandbox.ports import HOST
from sandbox.process import wait_until
from sandbox.servers import http_status

STEPS = ("place", "initialize", "pay", "escrow", "accept", "ship", "pin", "purchase")
TARGET_RATIO = 1.6
_FIRST_PORT = 18_700
_READY_SECONDS = 180.0
_STOP_SECONDS = 30.0
_ANSWER_SECONDS = 30.0
_ESCROW_SECONDS = 30.0
_POLL_SECONDS = 0.02
_WARM_UP_SECONDS = 4.0
_PRODUCTS_PER_STORE = 20
_STOCK = 100_000
_VENDORS = ("vendor", "vendor2")
# The stack's services by kind of process. Services that are not listed are summed as `other`.
_KINDS = {
    "postgresql": "PostgreSQL",
    "web": "sync",
    "waiting": "gevent",
    "proxy": "proxy",
    "providers": "sandbox",
    "valkey": "Valkey",
}


class PurchaseError(Exception):
    """A step of a purchase failed. The message has the step, the status and the response."""


@dataclass
class Figures:
    """The results of one or more rounds.

    :param timings: seconds of each step, and of the whole purchase
    :param polls: number of requests that waited for the payment to reach escrow
    :param cpu: processor seconds by kind of process
    :param busy_rounds: number of rounds during which other programs used more than a tenth of the processors
    """

    seconds: float = 0.0
    timings: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    polls: int = 0
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    busy_rounds: int = 0

    @property
    def purchases(self) -> int:
        """The number of completed purchases."""
        return len(self.timings["purchase"])

    @property
    def per_second(self) -> float:
        """The completed purchases per second."""
        return self.purchases / self.seconds if self.seconds else 0.0

    def add(self, other: "Figures") -> None:
        """Add the results of another round."""
        self.seconds += other.seconds
        self.polls += other.polls
        for kind, spent in other.cpu.items():
            self.cpu[kind] += spent
        self.busy_rounds += other.busy_rounds
        for step, timings in other.timings.items():
            self.timings[step].extend(timings)

    def described(self) -> dict[str, Any]:
        """Return the figures for JSON, with durations and processor time per purchase in milliseconds."""
        count = max(self.purchases, 1)
        return {
            "purchases": self.purchases,
            "per_second": self.per_second,
            "busy_rounds": self.busy_rounds,
            "polls": self.polls / count,
            "cpu_ms": {kind: seconds / count * 1000 for kind, seconds in sorted(self.cpu.items())},
            "steps_ms": {
                step: {
                    f"p{percent}": percentile(self.timings[step], percent) * 1000 for percent in (50, 95, 99)
                }
                for step in STEPS
            },
        }


class Connection:
    """A client's connection, kept open between requests, to an address of the stack."""

    def __init__(self, base_url: str, token: str | None = None) -> None:
        """Keep the address. The first request connects.

        :param token: an access token, or None for the sandbox's own routes
        """
        parts = urlsplit(base_url)
        self._prefix = parts.path
        self._connection = http.client.HTTPConnection(
            parts.hostname or HOST, parts.port, timeout=_ANSWER_SECONDS
        )
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the response's ``data``, or the whole body outside the envelope.

        :raises PurchaseError: the status is not 2xx
        """
        headers = dict(self._headers)
        if method == "POST":
            headers["Idempotency-Key"] = str(uuid4())
        content = b"" if body is None else orjson.dumps(body)
        self._connection.request(method, self._prefix + path, content, headers)
        answer = self._connection.getresponse()
        received = answer.read()
        if not 200 <= answer.status < 300:
            raise PurchaseError(
                f"{method} {path} answered {answer.status}: {received[:400].decode(errors='replace')}"
            )
        parsed = orjson.loads(received)
        return parsed.get("data", parsed) if isinstance(parsed, dict) else parsed

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Stack:
    """The complete embedded stack of a checkout, in a directory of its own."""

    def __init__(self, checkout: Path, directory: Path, *, port: int) -> None:
        """Describe the stack.

        :param checkout: with a virtual environment in ``.venv``
        :param directory: for the stack's data
        :param port: the public port
        """
        self.checkout = checkout
        self.port = port
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the stack, wait until it is ready, and stop it at the end.

        :raises PurchaseError: the stack did not become ready
        """
        environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        environment |= {
            "PORT": str(self.port),
            "DATA_DIR": str(self._directory / "data"),
            "RATE_LIMIT_SCALE": "1000000",
        }
        log = self._directory / "stack.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(self.checkout / ".venv/bin/python"), "-m", "sandbox.stack", "up"],
                cwd=self.checkout,
                env=environment,
                stdout=output,
                stderr=output,
            )
        try:
            running = self._process
            wait_until(
                lambda: running.poll() is not None or http_status(self.port, "/health/ready") == 200,
                timeout_seconds=_READY_SECONDS,
                pause=time.sleep,
            )
            if running.poll() is not None or http_status(self.port, "/health/ready") != 200:
                raise PurchaseError(f"The stack of {self.checkout} did not start:\n{log.read_text()[-2000:]}")
            yield
        finally:
            self._process.terminate()
            self._process.wait(_STOP_SECONDS)

    @property
    def process_id(self) -> int:
        """The process id of the stack's supervisor."""
        if self._process is None:
            raise PurchaseError("the stack is not running")
        return self._process.pid

    def environment(self) -> Mapping[str, str]:
        """Read the variables of the stack's processes, such as the addresses of the sandbox."""
        return parse_variables((self._directory / "data" / ENVIRONMENT_FILE).read_text(encoding="utf-8"))

    def cpu(self) -> dict[str, float]:
        """Read the processor seconds of the stack's processes by kind."""
        state = json.loads((self._directory / "data/state.json").read_text(encoding="utf-8"))
        spent: dict[str, float] = defaultdict(float)
        for name, process_id in state["services"].items():
            spent[_kind(name)] += processor_seconds(process_id)
        return spent


def _kind(service: str) -> str:
    return "workers" if service.startswith("worker-") else _KINDS.get(service, "other")


class Shop:
    """The products, buyers and vendors of a running stack, and the load on them."""

    def __init__(self, stack: Stack, *, clients: int) -> None:
        """Fetch tokens, stock products, and create a buyer per client.

        :param clients: number of concurrent purchases
        """
        self._stack = stack
        variables = stack.environment()
        self._api = f"http://{HOST}:{stack.port}"
        self._gateway = variables["GATEWAY_URL"]
        issuer = Connection(variables["IDENTITY_ISSUER"])
        self._vendor_tokens = {
            name: issuer.send("POST", "/sandbox/token", {"persona": name})["access_token"]
            for name in _VENDORS
        }
        self._products = {name: self._stock(token) for name, token in self._vendor_tokens.items()}
        self._buyers = [self._buyer(issuer) for _ in range(clients)]
        issuer.close()
        self._lock = Lock()

    def _stock(self, token: str) -> list[str]:
        vendor = Connection(self._api, token)
        found = vendor.send("GET", "/api/products/vendor/paginated?limit=50")
        rows = found["items"] if isinstance(found, dict) else found
        products = [row["id"] for row in rows if row["status"] == "published"][:_PRODUCTS_PER_STORE]
        for product in products:
            vendor.send("PUT", f"/api/products/{product}", {"quantity": _STOCK})
        vendor.close()
        return products

    def _buyer(self, issuer: Connection) -> tuple[str, str]:
        claims = {"sub": str(uuid4()), "email": f"b{uuid4().hex[:12]}@north.example.edu"}
        token = issuer.send("POST", "/sandbox/token", {"persona": "nobody", "claims": claims})["access_token"]
        buyer = Connection(self._api, token)
        body = {"hostel": "Moremi Hall", "roomNumber": "B204", "phone": "+2348030000001"}
        address = buyer.send("POST", "/api/users/me/addresses", body)["id"]
        buyer.close()
        return token, address

    def load(self, seconds: float) -> Figures:
        """Buy with all clients at once. No purchase starts after the given time.

        :raises PurchaseError: a step failed
        """
        figures = Figures()
        before, started = self._stack.cpu(), time.perf_counter()
        with ThreadPoolExecutor(len(self._buyers)) as pool:
            shoppers = [
                pool.submit(self._shop, number, figures, started + seconds)
                for number in range(len(self._buyers))
            ]
            for shopper in shoppers:
                shopper.result()
        figures.seconds = time.perf_counter() - started
        figures.cpu = {kind: spent - before.get(kind, 0.0) for kind, spent in self._stack.cpu().items()}
        return figures

    def _shop(self, number: int, figures: Figures, deadline: float) -> None:
        token, address = self._buyers[number]
        vendor_name = _VENDORS[number % len(_VENDORS)]
        products = self._products[vendor_name]
        buyer, vendor = Connection(self._api, token), Connection(self._api, self._vendor_tokens[vendor_name])
        gateway = Connection(self._gateway)
        turn = number
        while time.perf_counter() < deadline:
            timings, polls = _purchase(
                buyer, vendor, gateway, product=products[turn % len(products)], address=address
            )
            turn += 1
            with self._lock:
                figures.polls += polls
                for step, took in timings.items():
                    figures.timings[step].append(took)
        for connection in (buyer, vendor, gateway):
            connection.close()


def _purchase(
    buyer: Connection, vendor: Connection, gateway: Connection, *, product: str, address: str
) -> tuple[Mapping[str, float], int]:
    """Buy one unit of a product.

    :return: the seconds of each step, and the number of requests that waited for escrow
    """
    timings: dict[str, float] = {}
    began = moment = time.perf_counter()

    def ended(step: str) -> None:
        nonlocal moment
        timings[step], moment = time.perf_counter() - moment, time.perf_counter()

    items = [{"productId": product, "quantity": 1}]
    order = buyer.send("POST", "/api/orders", {"items": items, "addressId": address})["id"]
    ended("place")
    page = buyer.send("POST", "/api/payments/initialize", {"orderId": order})
    ended("initialize")
    gateway.send("POST", f"/sandbox/pay/{quote(page['reference'])}", {"channel": "card"})
    ended("pay")
    polls, path = 0, f"/api/orders/{order}"
    while (found := buyer.send("GET", path))["status"] == "pending_payment":
        polls += 1
        if time.perf_counter() - moment > _ESCROW_SECONDS:
            raise PurchaseError(f"{path} was not paid within {_ESCROW_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    ended("escrow")
    vendor.send("POST", f"{path}/accept")
    ended("accept")
    vendor.send("POST", f"{path}/status", {"status": "shipped"})
    ended("ship")
    delivered = vendor.send("POST", f"{path}/verify-code", {"pin": found["deliveryPin"]})
    ended("pin")
    if delivered["status"] != "delivered":
        raise PurchaseError(f"{path} is {delivered['status']} after the PIN, not delivered")
    timings["purchase"] = moment - began
    return timings, polls


def _round(shop: Shop, stacks: Sequence[Stack], *, seconds: float, title: str) -> Figures:
    """Load a shop until a round is quiet, at most five times, and return the quietest round."""
    rounds: list[tuple[float, Figures]] = []
    for _ in range(MOST_TRIES):
        foreign = Foreign(os.getpid(), *(stack.process_id for stack in stacks))
        figures = shop.load(seconds)
        share = foreign.share()
        rounds.append((share, figures))
        if share <= Foreign.MOST_SHARE:
            return figures
        click.echo(
            f"{title}: other programs used {share:.0%} of the processors, so this round is repeated", err=True
        )
    figures = min(rounds, key=lambda tried: tried[0])[1]
    figures.busy_rounds = 1
    return figures


def _table(results: Mapping[str, Figures]) -> str:
    lines = [
        "| Checkout | purchases | per second | ms of CPU | busy rounds | polls |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    described = {title: figures.described() for title, figures in results.items()}
    for title, row in described.items():
        total = sum(row["cpu_ms"].values())
        lines.append(
            f"| {title} | {row['purchases']:,} | {row['per_second']:.1f} | {total:.1f} | {row['busy_rounds']} |"
            f" {row['polls']:.1f} |"
        )
    kinds = sorted({kind for row in described.values() for kind in row["cpu_ms"]})
    lines += ["", f"| ms of CPU per purchase | {' | '.join(kinds)} |", "|---|" + "---:|" * len(kinds)]
    for title, row in described.items():
        lines.append(
            f"| {title} | " + " | ".join(f"{row['cpu_ms'].get(kind, 0):.1f}" for kind in kinds) + " |"
        )
    lines += ["", f"| p50 / p95 / p99 in ms | {' | '.join(STEPS)} |", "|---|" + "---:|" * len(STEPS)]
    for title, row in described.items():
        cells = (" / ".join(f"{value:.0f}" for value in row["steps_ms"][step].values()) for step in STEPS)
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, help=__doc__
)
@click.option(
    "--before",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Another checkout, with its own .venv, to compare with.",
)
@click.option(
    "--clients", default=8, show_default=True, type=click.IntRange(1, 64), help="Concurrent purchases."
)
@click.option(
    "--seconds", default=15.0, show_default=True, type=click.FloatRange(1, 300), help="Seconds of a round."
)
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1, 20), help="Rounds of each checkout."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write all figures to this file as JSON.",
)
def main(*, before: Path | None, clients: int, seconds: float, rounds: int, json_file: Path | None) -> None:
    """Measure the checkouts in turns and print the figures."""
    directory = Path(tempfile.mkdtemp(prefix="marketplace-purchases-"))
    directory.chmod(0o711)
    checkouts = {"before": before} if before else {}
    checkouts["now"] = Path(__file__).resolve().parents[1]
    results = {title: Figures() for title in checkouts}
    try:
        with ExitStack() as running:
            stacks: dict[str, Stack] = {}
            for number, (title, checkout) in enumerate(checkouts.items()):
                (directory / title).mkdir(mode=0o711)
                stacks[title] = Stack(checkout, directory / title, port=_FIRST_PORT + number * 100)
                click.echo(f"starting the stack of {checkout}", err=True)
                running.enter_context(stacks[title].running())
            shops = {title: Shop(stack, clients=clients) for title, stack in stacks.items()}
            for shop in shops.values():
                shop.load(_WARM_UP_SECONDS)
            for number in range(rounds):
                for title, shop in shops.items():
                    results[title].add(_round(shop, list(stacks.values()), seconds=seconds, title=title))
                rates = ", ".join(f"{title} {figures.per_second:.1f}/s" for title, figures in results.items())
                click.echo(f"{number + 1}/{rounds}: {rates}", err=True)
    except PurchaseError as error:
        raise click.ClickException(str(error)) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    machine = report.machine() | {"clients": clients, "seconds": seconds, "rounds": rounds}
    click.echo(", ".join(f"{name} {value}" for name, value in machine.items()) + "\n")
    click.echo(_table(results))
    if before:
        ratio = results["now"].per_second / results["before"].per_second
        met = "met" if ratio >= TARGET_RATIO else "missed"
        click.echo(f"\n{ratio:.2f} times the purchases per second of before (target {TARGET_RATIO}: {met})")
    if json_file:
        content = {"machine": machine, "figures": {title: row.described() for title, row in results.items()}}
        json_file.write_text(json.dumps(content, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
