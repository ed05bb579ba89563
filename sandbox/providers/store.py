"""A small SQLite file that outlives restarts and kills, shared by the threads of one process."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_TIMEOUT_SECONDS = 10.0


class StoreVersionError(Exception):
    """The file was written by another version of the sandbox."""


class Store:
    """One connection behind one lock: transactions of a sandbox are short, and so never find it busy."""

    def __init__(self, path: Path, *, schema: str, version: int) -> None:
        """Open the file, making it and its tables where they are missing.

        :param path: the file; its directory is made too, both readable by the owner alone
        :param schema: SQL statements that make an empty file ready
        :param version: goes up with each change of the schema
        :raises StoreVersionError: the file has another version
        :raises OSError: the directory or the file can't be made
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
            # Both in one transaction, so that a kill between them can't leave tables without a version.
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {version}; COMMIT;"
            )
        elif found != version:
            self._connection.close()
            raise StoreVersionError(
                f"{path} was written by another version of the sandbox ({found}, not {version}); "
                "delete it to start afresh"
            )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block in one transaction, committed at its end, undone if it raises."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file; what was committed is in it."""
        with self._lock:
            self._connection.close()
