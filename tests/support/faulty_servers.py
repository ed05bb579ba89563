"""A server with faults: refused connections, silence, slow answers, and wrong bodies."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Fault = Literal["none", "down", "slow", "lying", "black-holed"]


class FaultyServer:
    """An HTTP server that answers GET and HEAD with planned bodies by path, unless a fault is set."""

    def __init__(self, answers: Mapping[str, Any], *, slow_seconds: float) -> None:
        """Listen on a free port of the loopback interface.

        :param answers: JSON bodies by the end of the path without the query; other paths get 404
        :param slow_seconds: the delay of the fault ``slow``
        """
        self.fault: Fault = "none"
        self.requests = 0
        self._stopping = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests += 1
                if server.fault == "black-holed":
                    server._stopping.wait(30)
                    return
                if server.fault == "slow":
                    time.sleep(slow_seconds)
                path = self.path.partition("?")[0]
                found = [body for end, body in answers.items() if path.endswith(end)]
                body = json.dumps(found[0] if found else {}).encode()
                if server.fault == "lying":
                    body = b'{"unexpected": true}'
                self.send_response(500 if server.fault == "down" else 200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - the name of the library

            def log_message(self, *_arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop the server and let silent requests end."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def faulty_server(answers: Mapping[str, Any], *, slow_seconds: float = 0.6) -> Iterator[FaultyServer]:
    """Run a faulty server for the block."""
    server = FaultyServer(answers, slow_seconds=slow_seconds)
    try:
        yield server
    finally:
        server.close()
