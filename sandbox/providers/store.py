"""A SQLite file that survives restarts and kills, shared by the threads of a process."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_TIMEOUT_SECONDS = 10.0


class StoreVersionError(Exception):
    """The file was written by another version of the sandbox."""


class Store:
    """A connection with a lock. Transactions of the sandbox are short, so waiting for the lock is short too."""

    def __init__(self, path: Path, *, schema: str, version: int) -> None:
        """Open the file. Create the file and its tables when missing.

        :param path: the file; file and directory are readable by the owner only
        :param schema: SQL statements that initialize an empty file
        :param version: version of the schema
        :raises StoreVersionError: the file has another version
        :raises OSError: the directory or the file cannot be created
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._prepare(path, schema=schema, version=version)

    def _prepare(self, path: Path, *, schema: str, version: int) -> None:
        found = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        if found == 0:
            # A single transaction: a kill in between must not leave tables without a version.
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {version}; COMMIT;"
            )
        elif found != version:
            self._connection.close()
            raise StoreVersionError(
                f"{path} was written by another version of the sandbox ({found}, not {version}). "
                "Delete the file to start afresh."
            )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block in a transaction. Commit at its end, or roll back after an exception."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file. Committed data is safe."""
        with self._lock:
            self._connection.close()
