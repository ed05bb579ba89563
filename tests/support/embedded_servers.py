"""Embedded servers with free ports, for tests and for the processes that tests start."""

from collections.abc import Callable
from pathlib import Path

from sandbox.servers import (
    OBJECT_STORAGE_PAIRED_PORTS,
    OBJECT_STORAGE_PORTS,
    EmbeddedObjectStorage,
    EmbeddedPostgres,
    EmbeddedProxy,
    EmbeddedValkey,
    Server,
)
from tests.support.ports import free_port, free_ports

PASSWORD = "of-the-tests-only"


def make_postgres(directory: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(
        directory / "postgres", free_port("server"), password=PASSWORD, durable=False, database="shop"
    )


def make_valkey(directory: Path) -> EmbeddedValkey:
    return EmbeddedValkey(directory / "valkey", free_port("server"), password=PASSWORD)


def make_object_storage(directory: Path) -> EmbeddedObjectStorage:
    ports = free_ports("server", *OBJECT_STORAGE_PORTS, paired=OBJECT_STORAGE_PAIRED_PORTS)
    return EmbeddedObjectStorage(
        directory / "objects", ports, access_key_id="key", secret_access_key=PASSWORD
    )


def make_proxy(directory: Path) -> EmbeddedProxy:
    port = free_port("server")
    caddyfile = directory / "Caddyfile"
    caddyfile.write_text(
        '{\n  admin off\n  persist_config off\n}\nhttp://127.0.0.1:{$PORT} {\n  respond "hello" 200\n}\n'
    )
    return EmbeddedProxy(directory / "caddy", port, caddyfile=caddyfile, environment={"PORT": str(port)})


MAKERS: dict[str, Callable[[Path], Server]] = {
    "postgres": make_postgres,
    "valkey": make_valkey,
    "object_storage": make_object_storage,
    "proxy": make_proxy,
}
