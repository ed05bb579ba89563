"""Commands that every request sends to the cache, without the bookkeeping that the client does around each."""

from collections.abc import Sequence
from typing import Any

import redis
from redis.connection import AbstractConnection


class LeanRedisClient:
    """Connections of a client's making, each lent for one command and its answer.

    The client takes as long to send a command as the server to answer it: it counts, measures and checks its
    connections in between. Here a connection that died is found out by using it. Nothing may be sent before
    a process is forked, as with the database.
    """

    def __init__(self, client: redis.Redis, *, answer_timeout_seconds: float | None = None) -> None:
        """Prepare for sending; nothing is connected to until then.

        :param client: knows the address, the time-outs and how to sign in
        :param answer_timeout_seconds: how long to wait for an answer; none is as long as the client does
        """
        pool = client.connection_pool
        self._connection_class = pool.connection_class
        self._options = dict(pool.connection_kwargs)
        if answer_timeout_seconds is not None:
            self._options["socket_timeout"] = answer_timeout_seconds
        self._idle: list[AbstractConnection] = []

    def send_without_reply(self, *command: str | bytes | int) -> None:
        """Send a command without waiting for what comes of it: the server answers nothing.

        If the connection has died meanwhile, the command may be lost.

        :param command: its words
        :raises redis.RedisError: it could not be sent
        """
        self._exchange(command, has_reply=False)

    def send(self, *command: str | bytes | int) -> Any:
        """Send a command and give its answer.

        A connection that the server has closed since it was last used is replaced, so the command must be one
        that does no harm when it is run twice.

        :param command: its words
        :return: the answer as the server gave it; texts are bytes
        :raises redis.ResponseError: the server refused it
        :raises redis.RedisError: no answer was to be had
        """
        return self._exchange(command, has_reply=True)

    def _exchange(self, command: Sequence[str | bytes | int], *, has_reply: bool) -> Any:
        """Send a command over an idle connection, or over a new one where the idle ones have died."""
        while True:
            reused = bool(self._idle)
            connection = self._idle.pop() if reused else self._connection_class(**self._options)
            try:
                if has_reply:
                    connection.send_command(*command)
                else:
                    connection.send_packed_command(
                        connection.pack_commands([("CLIENT", "REPLY", "SKIP"), command])
                    )
                answer = connection.read_response() if has_reply else None
            except redis.ResponseError:
                # It answered, if not as we would like it: the connection is good.
                self._keep_idle(connection)
                raise
            except redis.ConnectionError:
                if not reused:
                    raise
            else:
                self._keep_idle(connection)
                return answer

    def _keep_idle(self, connection: AbstractConnection) -> None:
        if len(self._idle) < 16:
            self._idle.append(connection)
        else:
            connection.disconnect()  # type: ignore[no-untyped-call]
