"""Sessions that share one pooled connection between driver statements and the ORM."""

import time
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection

from marketplace.infra.waits.watch import Watch
from marketplace.kernel.signals import RECORDER

# Keys of a session's info.
NO_PREPARED_STATEMENTS_KEY = "no_prepared_statements"  # whether statements run unprepared
_DRIVER_CONNECTION_KEY = "driver_connection"  # the driver connection of the session
DROP_STALE_CONTENT_KEY = "drop_stale_content"  # the function that drops cached content after a commit
PUBLISH_EVENTS_KEY = "publish_events"  # the function that publishes live events after a commit
# A free connection takes less. Longer waits are for a returned connection, or for a new connection.
_SHORT_WAIT_SECONDS = 0.001


class PooledSession(Session):
    """A session with a connection straight from the pool, in a transaction or in autocommit.

    The ORM's work around a transaction costs as much as several statements. Only sessions that use the ORM pay this
    cost, on the same connection. In other sessions the driver commits.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        autocommit: bool = False,
        info: dict[Any, Any] | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(autoflush=not autocommit, expire_on_commit=False, info=info)
        self._engine = engine
        self._autocommit = autocommit
        self._watch = watch
        self._pooled_connection: PoolProxiedConnection | None = None
        self._connection: Connection | None = None

    def driver(self) -> PoolProxiedConnection:
        """Return the connection for statements that bypass the ORM."""
        if self.in_nested_transaction():
            self.connection()  # sets the savepoint if missing
        return self._check_out_connection()

    def _check_out_connection(self) -> PoolProxiedConnection:
        """Return the session's connection. The first call takes a connection from the pool."""
        if self._pooled_connection is None:
            watch = self._watch
            if watch is not None:
                watch.ensure_answering()
            self._pooled_connection = self._take_connection()
            if watch is not None:
                watch.limit_waits(self._pooled_connection.dbapi_connection, autocommit=self._autocommit)
            if self._autocommit:
                _set_autocommit(self._pooled_connection, on=True)
        return self._pooled_connection

    def _take_connection(self) -> PoolProxiedConnection:
        """Take a connection from the pool, and record a wait for the connection."""
        started_at = time.perf_counter()
        try:
            return self._engine.raw_connection()
        finally:
            seconds = time.perf_counter() - started_at
            if seconds > _SHORT_WAIT_SECONDS:
                RECORDER.observe("pool_wait", "", seconds)

    def get_bind(self, *_args: Any, **_kwargs: Any) -> Connection:
        """Return the connection that driver statements use, so that the ORM shares this connection."""
        if self._connection is None:
            self._connection = Connection(self._engine, connection=self._check_out_connection())
        return self._connection

    def commit(self) -> None:
        """Flush pending changes of the ORM and commit."""
        self.flush()
        if self._connection is not None:
            super().commit()
            return
        if self._pooled_connection is not None:
            self._pooled_connection.commit()
        self.dispatch.after_commit(self)

    def rollback(self) -> None:
        """Roll back all changes since the last commit."""
        if self._connection is None and self._pooled_connection is not None:
            self._pooled_connection.rollback()
        if self.in_transaction():
            super().rollback()
        else:
            self.dispatch.after_rollback(self)

    def close(self) -> None:
        """Close the session and return the connection to the pool, which rolls back an open transaction."""
        if self._connection is not None or self.in_transaction():
            super().close()
        connection, self._pooled_connection, self._connection = self._pooled_connection, None, None
        if connection is not None:
            if self._autocommit:
                _set_autocommit(connection, on=False)
            if _is_lost(connection):
                # The pool would try to roll back and log the failure.
                connection.invalidate()
            connection.close()


def _set_autocommit(pooled: PoolProxiedConnection, *, on: bool) -> None:
    """Switch the driver's autocommit without a round trip. In autocommit the driver sends no BEGIN."""
    connection: Any = pooled.dbapi_connection
    if connection is not None and not connection.closed:
        connection.autocommit = on


def _is_lost(pooled: PoolProxiedConnection) -> bool:
    """Return whether the driver has closed the connection and the pool does not know."""
    connection: Any = pooled.dbapi_connection
    return connection is not None and bool(connection.closed)


def driver_connection(session: Session) -> PoolProxiedConnection:
    """Return the session's driver connection, after a flush.

    The flush writes pending changes of the ORM, so that driver statements and the ORM see the same rows.
    """
    session.flush()
    if isinstance(session, PooledSession):
        return session.driver()
    pooled: PoolProxiedConnection | None = session.info.get(_DRIVER_CONNECTION_KEY)
    # A connection returned to the pool, for example after a rollback, may belong to another session now.
    if pooled is None or pooled.dbapi_connection is None:
        pooled = session.info[_DRIVER_CONNECTION_KEY] = session.connection().connection
    return pooled


def driver_cursor(session: Session) -> Any:
    """Return a cursor of the session's driver connection, after a flush."""
    return driver_connection(session).cursor()
