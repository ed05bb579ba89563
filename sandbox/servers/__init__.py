"""The embedded servers: PostgreSQL, Valkey, SeaweedFS (S3) and Caddy, each from its PyPI package.

The stack and the tests use these servers. ``launch`` starts a server and returns at once, so that several can
start side by side. ``start`` also waits until the server answers. All servers listen on the loopback address
only.
"""

from sandbox.servers.base import Server, http_status
from sandbox.servers.object_storage import (
    OBJECT_STORAGE_PAIRED_PORTS,
    OBJECT_STORAGE_PORTS,
    EmbeddedObjectStorage,
)
from sandbox.servers.postgres import EmbeddedPostgres
from sandbox.servers.proxy import EmbeddedProxy
from sandbox.servers.valkey import EmbeddedValkey

__all__ = [
    "OBJECT_STORAGE_PAIRED_PORTS",
    "OBJECT_STORAGE_PORTS",
    "EmbeddedObjectStorage",
    "EmbeddedPostgres",
    "EmbeddedProxy",
    "EmbeddedValkey",
    "Server",
    "http_status",
]
