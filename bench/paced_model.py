"""A language model for measurements, which streams at a fixed pace (``python -m bench.paced_model``).

The first word of an answer has two times, in letters: when the request arrived, and when the word left.
"""

import asyncio
import json
import sys
import time

_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_DIGITS = str.maketrans("ghijklmnop", "0123456789")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def encode_times(*nanoseconds: int) -> str:
    """Write times as words of letters. Digits would wait for the check of private values."""
    return "z".join(str(moment).translate(_LETTERS) for moment in nanoseconds)


def decode_times(word: str) -> list[int]:
    """Read the result of ``encode_times``."""
    return [int(part.translate(_DIGITS)) for part in word.strip().split("z")]


def _chunk(content: dict[str, object], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": content, "finish_reason": finish_reason}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    data = b"data: " + json.dumps(body).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


_WORD = _chunk({"content": " word"})
_END = _chunk({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class _Model:
    def __init__(self, tokens: int, tokens_per_second: float) -> None:
        self._tokens = tokens
        self._pause = 1 / tokens_per_second

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                arrived = time.perf_counter_ns()
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                await reader.readexactly(length)
                await self._answer(writer, arrived)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, arrived: int) -> None:
        first = _chunk({"content": encode_times(arrived, time.perf_counter_ns())})
        writer.write(_HEAD + first)
        await writer.drain()
        due = asyncio.get_running_loop().time()
        for _ in range(self._tokens - 1):
            due += self._pause
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            writer.write(_WORD)
            await writer.drain()
        writer.write(_END)
        await writer.drain()


async def _main(port: int, tokens: int, tokens_per_second: float) -> None:
    model = _Model(tokens, tokens_per_second)
    server = await asyncio.start_server(model.serve, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
