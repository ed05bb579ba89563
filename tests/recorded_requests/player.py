"""A player that runs requests and commands against a stack and keeps the responses in normal form."""

import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import requests

from tests.recorded_requests.normal_form import NormalForm

Json = Any
# An id without a row, for refusals and for steps that failed to create a row.
UNKNOWN_ID = "99999999-9999-4999-8999-999999999999"
_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.1
_LARGE_BODY = 500_000
_MOST_ATTEMPTS = 10
_WAIT_SECONDS = 30.0
_COMMAND_SECONDS = 120.0


class Answer:
    """A response with readers for the script."""

    def __init__(self, response: requests.Response) -> None:
        """Read the response."""
        self.status = response.status_code
        self.headers = response.headers
        self.content = response.content
        try:
            self.body: Json = response.json()
        except ValueError:
            self.body = None

    def get(self, *path: str | int, default: Any = None) -> Any:
        """Return a value from the response's ``data``, or the default, so that a script continues without the value."""
        found: Any = self.body.get("data") if isinstance(self.body, dict) else None
        for name in path:
            try:
                found = found[name]
            except (KeyError, IndexError, TypeError):
                return default
        return found

    def id(self, *path: str | int) -> str:
        """Return an id from the response, by default the id of ``data``, or else ``UNKNOWN_ID``."""
        found = self.get(*(path or ("id",)))
        return found if isinstance(found, str) else UNKNOWN_ID

    def meta(self, name: str) -> Any:
        """Return a value from the response's ``meta``."""
        return self.body.get("meta", {}).get(name) if isinstance(self.body, dict) else None


class Player:
    """Play the script. Each step is a request or a command, recorded under a unique name."""

    def __init__(self, base_url: str, checkout: Path, data_dir: Path) -> None:
        """Read the settings of the stack.

        :param base_url: the base address of the API
        :param checkout: the directory of the code, with ``.venv``
        :param data_dir: the stack's directory of state
        """
        self.base_url = base_url.rstrip("/")
        self.checkout = checkout
        self.data_dir = data_dir
        self.entries: list[dict[str, Any]] = []
        self._steps: set[str] = set()
        self._keys = 0
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update({"Accept-Encoding": "identity", "User-Agent": "recorder"})
        self._tokens: dict[tuple[str, bool, bool], str] = {}
        self.gateway = self.setting("GATEWAY_URL")
        self.issuer = self.setting("IDENTITY_ISSUER")
        self.secret = self.setting("GATEWAY_SECRET_KEY")
        self.verify_token = self.setting("MESSAGING_VERIFY_TOKEN")
        self.normal = NormalForm(
            {
                self.base_url: "<base>",
                self.gateway: "<gateway>",
                self.issuer: "<identity>",
                str(data_dir): "<data>",
                str(checkout): "<checkout>",
            }
        )

    # --- Requests

    def ask(
        self,
        step: str,
        method: str,
        path: str,
        *ids: str,
        who: str | None = None,
        aal2: bool = False,
        expired: bool = False,
        body: Json = None,
        raw: bytes | None = None,
        files: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | bool | None = None,
    ) -> Answer:
        """Send a request and record the response.

        :param step: the unique name of the step
        :param path: contains ``:name`` for each id, in the order of the ids
        :param who: the persona that sends the request
        :param body: a JSON body
        :param raw: a body that is sent unchanged
        :param files: form fields in the format of ``requests``
        :param key: an Idempotency-Key, or true for a fresh key
        """
        if step in self._steps:
            raise ValueError(f"two steps are named {step!r}")
        self._steps.add(step)
        sent = dict(headers or {})
        if who is not None:
            sent["Authorization"] = f"Bearer {self.token(who, aal2=aal2, expired=expired)}"
        if key:
            sent["Idempotency-Key"] = self.fresh_key() if key is True else key
        if body is not None:
            raw, sent["Content-Type"] = (
                json.dumps(body).encode(),
                sent.get("Content-Type", "application/json"),
            )
        address = f"{self.base_url}{_filled(path, ids)}"
        response = self._sent(method, address, params=query, data=raw, files=files, headers=sent)
        content_type = response.headers.get("content-type", "")
        shown_query = {name: self.normal.text(str(value), step) for name, value in (query or {}).items()}
        try:
            shown = self.normal.body(response.content, content_type, step)
        except ValueError:
            shown = {"unreadable": content_type}
        self.entries.append(
            {
                "step": step,
                "method": method,
                "path": path,
                "query": {name: _shown_cursor(name, value) for name, value in shown_query.items()},
                "who": None
                if who is None
                else f"{who}{' aal2' if aal2 else ''}{' expired' if expired else ''}",
                "status": response.status_code,
                "headers": self.normal.headers(response.headers),
                "body": shown,
            }
        )
        return Answer(response)

    def _sent(self, method: str, address: str, **more: Any) -> requests.Response:
        """Send a request. Repeat a large body after a 503 from the proxy.

        The proxy sometimes answers 503 if the service refuses a body before reading the whole body.
        """
        for _attempt in range(_MOST_ATTEMPTS):
            response = self._session.request(
                method, address, timeout=_TIMEOUT_SECONDS, allow_redirects=False, **more
            )
            if response.status_code != 503 or len(response.request.body or b"") < _LARGE_BODY:
                break
        return response

    def fetch(
        self, method: str, path: str, *ids: str, who: str | None = None, aal2: bool = False, body: Json = None,
        query: Mapping[str, Any] | None = None,
    ) -> Answer:  # fmt: skip
        """Send a request without recording, to find a row or to wait for a state."""
        sent = {} if who is None else {"Authorization": f"Bearer {self.token(who, aal2=aal2)}"}
        return Answer(
            self._session.request(
                method, f"{self.base_url}{_filled(path, ids)}", params=query, json=body, headers=sent,
                timeout=_TIMEOUT_SECONDS,
            )
        )  # fmt: skip

    def wait(self, what: str, condition: Callable[[], object], seconds: float = _WAIT_SECONDS) -> bool:
        """Wait until a condition holds. Record a time-out, because a time-out is a difference too."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(_POLL_SECONDS)
        print(f"waited in vain: {what}", file=sys.stderr)
        self.entries.append({"step": f"wait until {what}", "status": "waited in vain"})
        return False

    def token(self, persona: str, *, aal2: bool = False, expired: bool = False) -> str:
        """Return a persona's token from the sandbox's identity provider. Each token is requested once."""
        kind = (persona, aal2, expired)
        if kind not in self._tokens:
            wanted = {"persona": persona, "aal2": aal2, "expired": expired, "claims": {}}
            response = self._session.post(
                f"{self.issuer}/sandbox/token", json=wanted, timeout=_TIMEOUT_SECONDS
            )
            response.raise_for_status()
            found = response.json()
            self._tokens[kind] = next(found[name] for name in ("access_token", "token") if name in found)
        return self._tokens[kind]

    def fresh_key(self) -> str:
        """Create a unique Idempotency-Key, a UUID of version 4."""
        self._keys += 1
        digest = hashlib.sha256(f"{time.time_ns()} {self._keys}".encode()).digest()[:16]
        return str(UUID(bytes=digest, version=4))

    # --- The gateway

    def call_gateway(self, method: str, path: str, body: Json = None) -> Json:
        """Call the sandbox gateway's API or controls."""
        headers = {"Authorization": f"Bearer {self.secret}"}
        response = self._session.request(
            method, f"{self.gateway}{path}", json=body, headers=headers, timeout=_TIMEOUT_SECONDS
        )
        if not response.ok:
            print(f"gateway {method} {path}: {response.status_code} {response.text[:200]}", file=sys.stderr)
        return response.json()

    def signed(self, event: Json) -> tuple[bytes, dict[str, str]]:
        """Encode an event and sign the body as the gateway does."""
        raw = json.dumps(event).encode()
        signature = hmac.new(self.secret.encode(), raw, hashlib.sha512).hexdigest()
        return raw, {"Content-Type": "application/json", "x-gateway-signature": signature}

    # --- Commands

    def setting(self, name: str) -> str:
        """Return a setting of the stack."""
        return self._run("config", "get", name).stdout.strip()

    def command(self, step: str, *arguments: str) -> None:
        """Run an operator command and record the exit status and output."""
        done = self._run(*arguments)
        shown = self.normal.lines(done.stdout)
        self._record(
            step, arguments, {"exit": done.returncode, "out": shown, "err": self.normal.lines(done.stderr)}
        )

    def run_task(self, name: str, *, now: str | None = None) -> None:
        """Run a periodic task without recording."""
        done = self._run("periodic", "run", name, *(("--now", now) if now else ()))
        if done.returncode:
            print(f"periodic run {name}: {done.stdout} {done.stderr}", file=sys.stderr)

    def help_of(self, *arguments: str) -> list[str]:
        """Record options and subcommands from a command's help, and return the subcommands."""
        done = self._run(*arguments, "--help")
        options = sorted(set(re.findall(r"^ +(?:-\w, )?(--[a-z0-9-]+)", done.stdout, re.MULTILINE)))
        usage = done.stdout.splitlines()[0] if done.stdout else ""
        below = done.stdout.partition("\nCommands:\n")[2]
        commands = re.findall(r"^  ([a-z][a-z0-9-]*) ", below, re.MULTILINE)
        self._record(
            f"help: {' '.join(('marketplace', *arguments))}",
            (*arguments, "--help"),
            {"exit": done.returncode, "usage": usage, "options": options, "commands": commands},
        )
        return commands

    def run_unrecorded(self, *arguments: str) -> str:
        """Run a command without recording and return the output."""
        return self._run(*arguments).stdout

    def _record(self, step: str, arguments: tuple[str, ...], found: dict[str, Any]) -> None:
        if step in self._steps:
            raise ValueError(f"two steps are named {step!r}")
        self._steps.add(step)
        shown = [self.normal.text(word, step) for word in arguments]
        self.entries.append({"step": step, "command": shown, **found})

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DATA_DIR": str(self.data_dir), "COLUMNS": "200"}
        environment.pop("PYTHONPATH", None)
        return subprocess.run(
            [str(self.checkout / ".venv/bin/marketplace"), *arguments],
            cwd=self.checkout, env=environment, capture_output=True, text=True, timeout=_COMMAND_SECONDS,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip


def _filled(path: str, ids: tuple[str, ...]) -> str:
    left = list(ids)
    filled = re.sub(r":[a-zA-Z]+", lambda _found: left.pop(0) if left else UNKNOWN_ID, path)
    if left:
        raise ValueError(f"{path} takes fewer ids than {ids}")
    return filled


def _shown_cursor(name: str, value: str) -> str:
    return "<cursor>" if name == "cursor" and len(value) > 20 else value
