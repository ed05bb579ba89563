"""Configuration of the embedded stack: port, data directory, secrets and environment variables."""

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marketplace.kernel.env_file import format_variables
from sandbox.files import write_private
from sandbox.ports import HOST, PortReservation, reserve_ports
from sandbox.providers.inbox.service_account import make_private_key, make_service_account
from sandbox.servers import OBJECT_STORAGE_PAIRED_PORTS, OBJECT_STORAGE_PORTS

PROJECT = Path(__file__).resolve().parents[1]
_PORTS_OF_A_STACK = 20
_PLACES = 100
ENVIRONMENT_FILE = "stack.env"
# Variables with these prefixes are also written for `marketplace` commands in other shells.
_PASSED_ON = (
    *(
        "AI_",
        "ALERT_",
        "ASSISTANT_",
        "BUILD_",
        "CORS_",
        "DATABASE_",
        "DELIVERY_",
        "EMAIL_",
        "FUNCTIONS_",
        "GATEWAY_",
        "IDENTITY_",
    ),
    *("CLIENT_", "FCM_", "MAIL_", "VAPID_", "WEB_PUSH_"),
    *("LOG_", "MESSAGING_", "PUSH_", "RATE_", "SENTRY_", "SMS_", "SMTP_"),
)


class StackError(Exception):
    """The stack cannot run. The message says why and what to do."""


@dataclass(frozen=True)
class Layout:
    """Paths inside the data directory."""

    root: Path

    @property
    def logs(self) -> Path:
        """The directory of the process logs."""
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        """The lock file that the running stack and its child processes hold."""
        return self.root / "stack.lock"

    @property
    def state(self) -> Path:
        """The file that describes the running stack. The file exists only while the stack runs."""
        return self.root / "state.json"

    @property
    def prepared(self) -> Path:
        """The file that holds the fingerprint of the applied migrations."""
        return self.root / "prepared.json"

    @property
    def environment(self) -> Path:
        """The file of the stack's environment variables."""
        return self.root / ENVIRONMENT_FILE

    def make(self) -> None:
        """Create the data directory.

        :raises StackError: the directory is not writable
        """
        try:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            # PostgreSQL's user must be able to traverse the directory when root starts the stack.
            self.root.mkdir(mode=0o711, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
            for path in (self.root, self.logs):
                probe = path / ".writable"
                probe.touch()
                probe.unlink()
        except OSError as error:
            raise StackError(
                f"{self.root} is not writable ({error.strerror}). Choose another directory:"
                " DATA_DIR=/some/where make run"
            ) from error


@dataclass(frozen=True)
class Configuration:
    """All settings that are fixed before the first process starts."""

    port: int
    layout: Layout
    variables: Mapping[str, str]
    ports: Mapping[str, int]
    secrets: Mapping[str, str]
    embedded_database: bool
    embedded_cache: bool
    embedded_storage: bool
    sandbox_gateway: bool
    sandbox_identity: bool
    sandbox_ai: bool
    sandbox_assistant: bool
    sandbox_chat: bool
    sandbox_sms: bool
    sandbox_inbox: bool

    @property
    def uses_sandbox(self) -> bool:
        """Whether any provider is simulated by the sandbox."""
        return any(
            (
                self.sandbox_gateway,
                self.sandbox_identity,
                self.sandbox_ai,
                self.sandbox_assistant,
                self.sandbox_chat,
                self.sandbox_sms,
                self.sandbox_inbox,
            )
        )

    @property
    def public_base_url(self) -> str:
        """The stack's public address."""
        return self.variables["PUBLIC_BASE_URL"]

    @property
    def media_upstream(self) -> str:
        """The object storage's address in the proxy's notation: host:port, or a URL with https."""
        endpoint = self.variables["S3_ENDPOINT_URL"]
        return endpoint.removeprefix("http://").rstrip("/")

    def environment(self, **more: str) -> dict[str, str]:
        """Build a child process's environment from this process's variables, the stack's variables and `more`."""
        return {**os.environ, **self.variables, **more}


def read_port(environ: Mapping[str, str]) -> int:
    """Read the public port.

    :raises StackError: PORT is not a port number
    """
    given = environ.get("PORT") or "8000"
    if not given.isdecimal() or not 1 <= int(given) <= 65_535:
        raise StackError(f"PORT must be a number from 1 to 65535, not {given!r}.")
    return int(given)


def read_layout(environ: Mapping[str, str]) -> Layout:
    """Read the data directory's path."""
    return Layout(Path(environ.get("DATA_DIR") or PROJECT / ".data").expanduser().absolute())


def configure(environ: Mapping[str, str], layout: Layout) -> tuple[Configuration, PortReservation]:
    """Determine all settings of the stack and write them to the data directory.

    :param environ: servers and providers given here are used instead of embedded servers
    :return: the configuration, and the stack's ports, reserved until each server binds its port
    :raises StackError: the given variables are incomplete
    :raises NoFreePortError: too few ports are free
    """
    port = read_port(environ)
    _require_companions(environ)
    own = _load_secrets(layout.root / "secrets.json")
    reservation = _reserve(port, layout.root / "ports.json")
    ports = reservation.ports
    variables = _variables(environ, port=port, ports=ports, own=own, layout=layout)
    write_private(layout.environment, format_variables(variables))
    configuration = Configuration(
        port=port,
        layout=layout,
        variables=variables,
        ports=ports,
        secrets=own,
        embedded_database=not environ.get("DATABASE_URL"),
        embedded_cache=not environ.get("REDIS_URL"),
        embedded_storage=not environ.get("S3_ENDPOINT_URL"),
        sandbox_gateway=not environ.get("GATEWAY_URL"),
        sandbox_identity=not environ.get("IDENTITY_ISSUER"),
        sandbox_ai=not environ.get("AI_URL"),
        sandbox_assistant=not environ.get("ASSISTANT_URL"),
        sandbox_chat=not environ.get("ALERT_CHAT_URL"),
        sandbox_sms=not environ.get("SMS_URL"),
        sandbox_inbox=not environ.get("MESSAGING_URL"),
    )
    return configuration, reservation


def migrations_fingerprint() -> str:
    """Compute a digest of all migrations. An unchanged digest means that the database is up to date."""
    digest = hashlib.sha256()
    for path in sorted((PROJECT / "migrations").rglob("*")):
        if path.suffix in {".py", ".sql"}:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _require_companions(environ: Mapping[str, str]) -> None:
    """Refuse an external server without its credentials. The stack's own secrets do not fit that server."""
    needed = {
        "S3_ENDPOINT_URL": ("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"),
        "GATEWAY_URL": ("GATEWAY_SECRET_KEY",),
        "AI_URL": ("AI_KEY",),
        "SMS_URL": ("SMS_API_KEY",),
        "MESSAGING_URL": ("MESSAGING_ACCESS_TOKEN", "MESSAGING_PHONE_ID"),
    }
    for name, companions in needed.items():
        missing = [companion for companion in companions if not environ.get(companion)]
        if environ.get(name) and missing:
            raise StackError(f"{name} is set. {' and '.join(missing)} must be set too.")
    if environ.get("IDENTITY_ISSUER") and not (
        environ.get("IDENTITY_JWKS_URL") or environ.get("IDENTITY_SHARED_SECRET")
    ):
        raise StackError(
            "IDENTITY_ISSUER is set. IDENTITY_JWKS_URL or IDENTITY_SHARED_SECRET must be set too."
        )


def _variables(
    environ: Mapping[str, str],
    *,
    port: int,
    ports: Mapping[str, int],
    own: Mapping[str, str],
    layout: Layout,
) -> dict[str, str]:
    providers = f"http://{HOST}:{ports['providers']}"
    made = {
        "ENVIRONMENT": "embedded",
        "PUBLIC_BASE_URL": f"http://{HOST}:{port}",
        "DATABASE_URL": f"postgresql://marketplace:{own['database_password']}@{HOST}:{ports['database']}"
        "/marketplace",
        "REDIS_URL": f"redis://:{own['cache_password']}@{HOST}:{ports['cache']}/0",
        "S3_ENDPOINT_URL": f"http://{HOST}:{ports['s3']}",
        "S3_ACCESS_KEY_ID": own["s3_access_key_id"],
        "S3_SECRET_ACCESS_KEY": own["s3_secret_access_key"],
        "S3_REGION": "us-east-1",
        "S3_PUBLIC_BUCKET": "marketplace-public",
        "S3_PRIVATE_BUCKET": "marketplace-private",
        "GATEWAY_NAME": "gateway",
        "GATEWAY_URL": f"{providers}/gateway",
        "GATEWAY_SECRET_KEY": own["gateway_secret_key"],
        "IDENTITY_ISSUER": f"{providers}/identity",
        "IDENTITY_AUDIENCE": "campus-marketplace",
        "IDENTITY_ADMIN_KEY": own["identity_admin_key"],
        "AI_URL": f"{providers}/ai",
        "AI_KEY": own["ai_key"],
        "ASSISTANT_URL": f"{providers}/ai",
        # A local model needs no key, and the stack's own key is not for others.
        "ASSISTANT_KEY": "" if environ.get("ASSISTANT_URL") else own["ai_key"],
        "SMS_URL": f"{providers}/sms",
        "SMS_API_KEY": own["sms_api_key"],
        "SCALE_HOOK_URL": f"{providers}/scale/workers",
        "VAPID_PRIVATE_KEY": own["vapid_private_key"],
        "WEB_PUSH_URL": f"{providers}/inbox/push",
        "FCM_CREDENTIALS": make_service_account(f"{providers}/inbox/fcm/token", key=own["fcm_private_key"]),
        "FCM_URL": f"{providers}/inbox/fcm",
        "MESSAGING_URL": f"{providers}/inbox/cloud/v23.0",
        "MESSAGING_ACCESS_TOKEN": own["messaging_access_token"],
        "MESSAGING_PHONE_ID": "100200300",
        "SMTP_URL": f"smtp://{HOST}:{ports['mail']}",
        "MAIL_REPLY_DOMAIN": "replies.campus.example",
        "SANDBOX_MAIL_PORT": str(ports["mail"]),
        # Without an app secret, a simulated messaging provider need not sign its requests.
        "MESSAGING_VERIFY_TOKEN": own["messaging_verify_token"],
        "ALERT_CHAT_URL": f"{providers}/chat/hook",
        "ALERT_CHAT_SEVERITY": "SEV-3",
        "FUNCTIONS_KEY": own["functions_key"],
        "FUNCTIONS_SIGNING_SECRETS": own["functions_signing_secret"],
        "DELIVERY_PIN_KEY": own["delivery_pin_key"],
        "CURSOR_KEY": own["cursor_key"],
        "DATA_ENCRYPTION_KEYS": f"k1:{own['data_encryption_key']}",
        "BLIND_INDEX_KEY": own["blind_index_key"],
        "TRUSTED_PROXY_HOPS": "1",
        # Clients in development run on ports of their own.
        "CORS_ORIGINS": "http://localhost:*,http://127.0.0.1:*",
    }
    if not environ.get("IDENTITY_ISSUER"):
        made["IDENTITY_JWKS_URL"] = f"{providers}/identity/.well-known/jwks.json"
        made["IDENTITY_ADMIN_URL"] = f"{providers}/identity/admin"
    given = {
        name: value
        for name, value in environ.items()
        if value and (name in made or name.startswith(_PASSED_ON)) and "\n" not in value
    }
    return made | given | {"DATA_DIR": str(layout.root)}


def _load_secrets(path: Path) -> dict[str, str]:
    """Load the stored secrets and generate missing secrets."""
    known = _read_json(path)
    made = {
        "database_password": secrets.token_hex(24),
        "cache_password": secrets.token_hex(24),
        "s3_access_key_id": secrets.token_hex(10).upper(),
        "s3_secret_access_key": secrets.token_hex(24),
        "gateway_secret_key": f"sk_test_{secrets.token_hex(20)}",
        "identity_admin_key": secrets.token_hex(24),
        "ai_key": f"sk_test_{secrets.token_hex(20)}",
        "sms_api_key": f"sk_test_{secrets.token_hex(20)}",
        "messaging_verify_token": secrets.token_hex(16),
        "messaging_access_token": secrets.token_hex(24),
        "vapid_private_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode(),
        "functions_key": secrets.token_hex(24),
        "functions_signing_secret": f"v1,whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}",
        "delivery_pin_key": secrets.token_hex(24),
        "cursor_key": secrets.token_hex(24),
        "data_encryption_key": base64.b64encode(secrets.token_bytes(32)).decode(),
        "blind_index_key": base64.b64encode(secrets.token_bytes(32)).decode(),
    }
    merged = made | known
    if "fcm_private_key" not in merged:
        # Generating the key takes longer than the other secrets together.
        merged["fcm_private_key"] = make_private_key()
    if merged != known:
        write_private(path, json.dumps(merged, indent=2))
    return merged


def _reserve(port: int, path: Path) -> PortReservation:
    names = ("database", "cache", *OBJECT_STORAGE_PORTS, "providers", "mail", "web", "waiting", "metrics")
    remembered = {name: number for name, number in _read_json(path).items() if isinstance(number, int)}
    # Stacks of different data directories search from different ports. A restarting process leaves its port free for
    # a moment, and another stack must not take that port.
    place = int.from_bytes(hashlib.blake2b(str(path).encode(), digest_size=2).digest()) % _PLACES
    reservation = reserve_ports(
        names,
        first=port + 1_000 + _PORTS_OF_A_STACK * place,
        remembered=remembered,
        paired=OBJECT_STORAGE_PAIRED_PORTS,
    )
    if reservation.ports != remembered:
        write_private(path, json.dumps(reservation.ports, indent=2))
    return reservation


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that the stack wrote.

    :raises StackError: the file is unreadable or has unexpected content
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StackError(
            f"{path} cannot be read ({error}). Restore the file, or delete all state with `make reset`."
        ) from error
    if not isinstance(content, dict):
        raise StackError(
            f"{path} has unexpected content. Restore the file, or delete all state with `make reset`."
        )
    return content
