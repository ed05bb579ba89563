"""Sessions whose statements and ORM share one connection of the pool."""

from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection

NO_PREPARED_STATEMENTS_KEY = "no_prepared_statements"  # in a session's info: whether it prepares none
_DRIVER_CONNECTION_KEY = "driver_connection"  # in a session's info: the one that it holds
DROP_STALE_CONTENT_KEY = (
    "drop_stale_content"  # in a session's info: what drops cached content after its commit
)


class PooledSession(Session):
    """A session whose statements take their connection straight from the pool, in a transaction or in autocommit.

    What the ORM does around a transaction costs as much as several statements. It is paid where the ORM is used,
    which then goes by the same connection; otherwise the driver alone commits.
    """

    def __init__(
        self, engine: Engine, *, autocommit: bool = False, info: dict[Any, Any] | None = None
    ) -> None:
        super().__init__(autoflush=not autocommit, expire_on_commit=False, info=info)
        self._engine = engine
        self._autocommit = autocommit
        self._pooled_connection: PoolProxiedConnection | None = None
        self._connection: Connection | None = None

    def driver(self) -> PoolProxiedConnection:
        """Give the connection, where statements are run past the ORM."""
        if self.in_nested_transaction():
            self.connection()  # sets the savepoint, unless it is set
        return self._check_out_connection()

    def _check_out_connection(self) -> PoolProxiedConnection:
        """Take the connection from the pool when it is first asked for."""
        if self._pooled_connection is None:
            self._pooled_connection = self._engine.raw_connection()
            if self._autocommit:
                _set_autocommit(self._pooled_connection, on=True)
        return self._pooled_connection

    def get_bind(self, *_args: Any, **_kwargs: Any) -> Connection:
        """Have the ORM, where it is used, go by the same connection as statements do."""
        if self._connection is None:
            self._connection = Connection(self._engine, connection=self._check_out_connection())
        return self._connection

    def commit(self) -> None:
        """Write what the ORM holds back, and commit."""
        self.flush()
        if self._connection is not None:
            super().commit()
            return
        if self._pooled_connection is not None:
            self._pooled_connection.commit()
        self.dispatch.after_commit(self)

    def rollback(self) -> None:
        """Take back what was done since the last commit."""
        if self._connection is None and self._pooled_connection is not None:
            self._pooled_connection.rollback()
        if self.in_transaction():
            super().rollback()
        else:
            self.dispatch.after_rollback(self)

    def close(self) -> None:
        """End the session and give its connection back, which is rolled back if need be."""
        if self._connection is not None or self.in_transaction():
            super().close()
        connection, self._pooled_connection, self._connection = self._pooled_connection, None, None
        if connection is not None:
            if self._autocommit:
                _set_autocommit(connection, on=False)
            connection.close()


def _set_autocommit(pooled: PoolProxiedConnection, *, on: bool) -> None:
    """Tell the driver, which sends no BEGIN then; the server hears nothing of it. A dead connection is let be."""
    connection: Any = pooled.dbapi_connection
    if connection is not None and not connection.closed:
        connection.autocommit = on


def driver_connection(session: Session) -> PoolProxiedConnection:
    """Give the session's own driver connection, after a flush.

    What the ORM holds back is written first, so that prepared statements and the ORM see the same rows.
    """
    session.flush()
    if isinstance(session, PooledSession):
        return session.driver()
    pooled: PoolProxiedConnection | None = session.info.get(_DRIVER_CONNECTION_KEY)
    # One that went back to its pool, after a rollback for instance, is nobody's or somebody else's by now.
    if pooled is None or pooled.dbapi_connection is None:
        pooled = session.info[_DRIVER_CONNECTION_KEY] = session.connection().connection
    return pooled


def driver_cursor(session: Session) -> Any:
    """Give a cursor of the session's own driver connection, after a flush."""
    return driver_connection(session).cursor()
