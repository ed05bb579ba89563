"""Tokens: claims, and an HTTP server of signing keys that counts requests and can fail."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tests.conftest import AUDIENCE, ISSUER


def claims_of(user_id: UUID, **changes: Any) -> dict[str, Any]:
    """Return the claims of a valid token with changes. None removes a claim."""
    given = {"iss": ISSUER, "aud": AUDIENCE, "sub": str(user_id), "exp": time.time() + 600} | changes
    return {name: value for name, value in given.items() if value is not None}


def segment(content: bytes) -> str:
    """Encode a part of a token."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class KeyServer:
    """A server that signs tokens and publishes the public keys."""

    def __init__(self) -> None:
        self.fetches = 0
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.others: list[dict[str, Any]] = []
        self.status = 200
        self.body: bytes | None = None
        self.gate: threading.Event | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.fetches += 1
                if outer.gate is not None:
                    outer.gate.wait(10)
                content = outer.body if outer.body is not None else outer.document()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Suppress the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Return the address of the keys."""
        return f"http://127.0.0.1:{self._server.server_port}/jwks.json"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server, so that connections are refused."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def add_key(self, key_id: str) -> str:
        """Create and publish a key."""
        self.keys[key_id] = ec.generate_private_key(ec.SECP256R1())
        return key_id

    def published(self, key_id: str) -> dict[str, Any]:
        """Return a key in published form."""
        found = jwt.algorithms.ECAlgorithm.to_jwk(self.keys[key_id].public_key(), as_dict=True)
        return dict(found) | {"kid": key_id, "use": "sig", "alg": "ES256"}

    def document(self) -> bytes:
        """Return the published document."""
        return json.dumps({"keys": [*self.others, *map(self.published, self.keys)]}).encode()

    def token(self, user_id: UUID, *, key_id: str, named: str | None = None) -> str:
        """Sign a user's token. ``named`` replaces the key id in the header."""
        headers = {"kid": key_id if named is None else named}
        return jwt.encode(claims_of(user_id), self.keys[key_id], algorithm="ES256", headers=headers)
