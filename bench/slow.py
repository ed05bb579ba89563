"""The part ``listing-slow-gateway``: reads must stay fast while payments wait for a slow gateway."""

import http.client
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from bench.figures import Run, Target
from bench.load import Call, LoadError, put_under_load
from bench.parts import Part, Side, http_side
from bench.stand import Stand
from sandbox.ports import HOST

TAKES_SECONDS = 2.0
_ANSWER_SECONDS = 10


@contextmanager
def slow_gateway(stand: Stand) -> Iterator[None]:
    """Run a proxy before the sandbox gateway that delays each response."""

    class Slow(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(TAKES_SECONDS)
            behind = http.client.HTTPConnection(HOST, stand.ports["providers"], timeout=_ANSWER_SECONDS)
            behind.request("POST", self.path, body, dict(self.headers))
            answer = behind.getresponse()
            content = answer.read()
            behind.close()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            """Log nothing. The gateway behind this proxy has a log."""

    server = ThreadingHTTPServer((HOST, stand.ports["slow-gateway"]), Slow)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def slow_part(
    stand: Stand,
    *,
    listing: Callable[[], Iterator[Call]],
    payments: Callable[[], Iterator[Call]],
    clients: int,
) -> Part:
    """Build the part: the listing while payments wait, and the listing alone as the floor.

    :param listing: generates requests of the listing
    :param payments: generates requests that open payments
    :param clients: number of concurrent requests of each kind
    """

    def side(title: str) -> Side:
        return http_side(stand, title, server="web", calls=listing, clients=clients)

    listed = side("listing, while payments wait 2 s for the gateway")

    def load(seconds: float) -> Run:
        with slow_gateway(stand), ThreadPoolExecutor(1) as pool:
            opening = pool.submit(
                put_under_load, stand.ports["slow"], payments(), clients=clients, seconds=seconds
            )
            run = listed.load(seconds)
            opened = opening.result()
        if opened.failures or any(took < TAKES_SECONDS for _, took in opened.timings):
            raise LoadError(f"the payments did not wait for the slow gateway: {dict(opened.statuses)}")
        return run

    return Part(
        "listing-slow-gateway",
        Side(listed.title, load),
        (side("listing without payments"),),
        Target(share=0.9),
    )
