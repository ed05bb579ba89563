"""A lean Redis client for commands of every request, without the bookkeeping of the standard client."""

from collections.abc import Sequence
from typing import Any

import redis
from redis.connection import AbstractConnection

from marketplace.kernel.tracing import span

# A gevent process sends many commands at once. Creating a connection takes longer than a command.
_MAX_IDLE = 64


class LeanRedisClient:
    """A pool of connections. A connection serves one command and its response at a time.

    The standard client spends as much time per command as the server, because of its counts, metrics and health
    checks. This client detects a dead connection by using the connection. Do not send commands before a process
    forks, as with the database.
    """

    def __init__(self, client: redis.Redis, *, answer_timeout_seconds: float | None = None) -> None:
        """Prepare the pool without connecting.

        :param client: provides the address, the time-outs and the credentials
        :param answer_timeout_seconds: the time-out for a response; none uses the client's time-out
        """
        pool = client.connection_pool
        self._connection_class = pool.connection_class
        self._options = dict(pool.connection_kwargs)
        if answer_timeout_seconds is not None:
            self._options["socket_timeout"] = answer_timeout_seconds
        self._idle: list[AbstractConnection] = []

    def send_without_reply(self, *command: str | bytes | int) -> None:
        """Send a command that the server does not reply to.

        The command can be lost if the connection is dead.

        :raises redis.RedisError: the command could not be sent
        """
        self._exchange(command, has_reply=False)

    def send(self, *command: str | bytes | int) -> Any:
        """Send a command and return the response.

        The client replaces a connection that the server has closed and sends the command again. The command must
        therefore be safe to run twice.

        :return: the server's response, with texts as bytes
        :raises redis.ResponseError: the server refused the command
        :raises redis.RedisError: no response
        """
        return self._exchange(command, has_reply=True)

    def _exchange(self, command: Sequence[str | bytes | int], *, has_reply: bool) -> Any:
        # The keys can have ids, so the span has only the name of the command.
        with span(str(command[0]), kind="client", db__system__name="redis"):
            return self._exchange_with_retry(command, has_reply=has_reply)

    def _exchange_with_retry(self, command: Sequence[str | bytes | int], *, has_reply: bool) -> Any:
        """Send a command over an idle connection, or over a new connection if all idle connections are dead."""
        while True:
            idle = self._take_idle()
            reused = idle is not None
            connection = idle or self._connection_class(**self._options)
            try:
                if has_reply:
                    connection.send_command(*command)
                else:
                    connection.send_packed_command(
                        connection.pack_commands([("CLIENT", "REPLY", "SKIP"), command])
                    )
                answer = connection.read_response() if has_reply else None
            except redis.ResponseError:
                # An error response still proves that the connection works.
                self._keep_idle(connection)
                raise
            except redis.ConnectionError:
                if not reused:
                    raise
            else:
                self._keep_idle(connection)
                return answer

    def _take_idle(self) -> AbstractConnection | None:
        # Another thread can take the last connection between a check and the removal.
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _keep_idle(self, connection: AbstractConnection) -> None:
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.disconnect()  # type: ignore[no-untyped-call]
