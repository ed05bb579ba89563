"""The stack's console output: a line per step, and the first commands to try."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.configuration import Configuration
from sandbox.personas import persona_names

Report = Callable[[str], None]

_NAME_WIDTH = 20


class Console:
    """A line printer, in colour on a terminal and plain elsewhere."""

    def __init__(self) -> None:
        self._colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def line(self, text: str = "") -> None:
        """Print a line immediately.

        A closed pipe (``make run | head``) is no reason to end the stack.
        """
        try:
            print(text, flush=True)
        except BrokenPipeError:
            sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - stays open until exit

    def step(self, name: str, text: str) -> None:
        """Print a completed step and the component that did it."""
        self.line(f"  {self._paint(name.ljust(_NAME_WIDTH), '36')} {text}")

    @contextmanager
    def timed(self, name: str, text: str) -> Iterator[None]:
        """Print a completed step and its duration."""
        started = time.monotonic()
        yield
        self.step(name, f"{text} ({time.monotonic() - started:.1f} s)")

    def problem(self, text: str) -> None:
        """Print an error to standard error."""
        print(self._paint(text, "31") if sys.stderr.isatty() else text, file=sys.stderr, flush=True)

    def heading(self, text: str) -> None:
        """Print an emphasized line."""
        self.line(self._paint(text, "1"))

    def _paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colours else text


def banner(configuration: Configuration, *, seconds: float) -> list[str]:
    """List the stack's addresses and the first commands.

    :param seconds: duration of the start
    """
    base = configuration.public_base_url
    variables = configuration.variables
    where = [
        ("API", f"{base}/api"),
        ("Documentation", f"{base}/docs"),
        ("Staff pages", f"{base}/admin (not available yet)"),
        (
            "Payment gateway",
            _describe_address(variables["GATEWAY_URL"], sandbox=configuration.sandbox_gateway),
        ),
        (
            "Identity provider",
            _describe_address(variables["IDENTITY_ISSUER"], sandbox=configuration.sandbox_identity),
        ),
        (
            "Assistant's model",
            _describe_address(variables["ASSISTANT_URL"], sandbox=configuration.sandbox_assistant),
        ),
        ("AI moderation", _describe_address(variables["AI_URL"], sandbox=configuration.sandbox_ai)),
        ("SMS", _describe_address(variables["SMS_URL"], sandbox=configuration.sandbox_sms)),
        ("Messages", _describe_inbox(configuration)),
        ("Alerts", _describe_alert_destination(configuration)),
        ("Logs", str(configuration.layout.logs)),
    ]
    lines = ["", f"Ready in {seconds:.1f} s: {base}", ""]
    lines += [f"  {name.ljust(_NAME_WIDTH)} {address}" for name, address in where]
    if configuration.sandbox_identity:
        names = ", ".join(persona_names())
        prefix = _prefix(configuration)
        lines += [
            f"  {'Personas'.ljust(_NAME_WIDTH)} {names}",
            "",
            "Get a token and call the API:",
            "",
            f"  TOKEN=$({prefix}.venv/bin/marketplace token buyer)",
            f'  curl -H "Authorization: Bearer $TOKEN" {base}/api/users/me',
        ]
    lines += ["", "Ctrl-C stops everything. All data is kept.", ""]
    return lines


def _describe_alert_destination(configuration: Configuration) -> str:
    """Describe the destination of alerts. A real chat's address is a secret and is not printed."""
    hook = configuration.variables["ALERT_CHAT_URL"]
    return (
        f"{hook.removesuffix('hook')} (sandbox chat)"
        if configuration.sandbox_chat
        else "chat of ALERT_CHAT_URL"
    )


def _describe_inbox(configuration: Configuration) -> str:
    """Describe where people's push messages, template messages and e-mails are shown."""
    push_url = configuration.variables["WEB_PUSH_URL"]
    if not configuration.sandbox_inbox:
        return f"{configuration.variables['MESSAGING_URL']} (external)"
    return f"{push_url.removesuffix('push')} (sandbox inbox)"


def _describe_address(address: str, *, sandbox: bool) -> str:
    return f"{address} ({'sandbox' if sandbox else 'external'})"


def _prefix(configuration: Configuration) -> str:
    """Name the data directory for commands, which look for the stack in .data by default."""
    given = os.environ.get("DATA_DIR")
    return f"DATA_DIR={configuration.layout.root} " if given else ""
