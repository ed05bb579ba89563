"""The SQL floors run by pgbench: the speed of the database alone."""

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bench.figures import Cpu, Run
from sandbox.ports import HOST
from sandbox.servers import EmbeddedPostgres

_LONGEST_SECONDS = 120
_TPS = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
_LATENCY_FIELD = 2  # in a line of pgbench's log, in microseconds


class PgbenchError(Exception):
    """pgbench failed. The message is the end of its error output."""


def script(
    *,
    settings: Sequence[str],
    prepared: Sequence[str],
    statements: Sequence[str],
    values: Mapping[str, str],
    captures: int | None,
) -> str:
    """Build a pgbench script.

    :param settings: variable assignments of each transaction; ``i`` counts a client's transactions from 0
    :param prepared: statements sent once per connection
    :param statements: in order, with ``%(name)s`` for a value
    :param values: variables of pgbench (``:name``) or SQL
    :param captures: index of the statement that returns ``new_id`` for later statements, or None
    """
    lines = [r"\set i :i + 1", *settings]
    if prepared:
        lines += [r"\if :i = 0", *(f"{statement};" for statement in prepared), r"\endif"]
    for number, statement in enumerate(statements):
        filled = " ".join((statement % {**values, "new_id": ":new_id"}).split())
        # The column's name is id, so \gset names the variable new_id.
        lines.append(filled + (r" \gset new_" if number == captures else ";"))
    return "\n".join(lines) + "\n"


def run(
    server: EmbeddedPostgres,
    directory: Path,
    content: str,
    *,
    clients: int,
    transactions: int,
    first: int,
    cpu: Callable[[], float],
) -> Run:
    """Run a pgbench script.

    :param directory: for the script and pgbench's log
    :param content: the script
    :param clients: number of concurrent connections
    :param transactions: number of transactions per client
    :param first: number of the first unused row, the script's variable ``first``
    :param cpu: reads the database's processor time in seconds
    :raises PgbenchError: pgbench failed
    :raises subprocess.TimeoutExpired: pgbench took longer than two minutes
    """
    path = directory / "pgbench.sql"
    path.write_text(content, encoding="utf-8")
    prefix = directory / "pgbench-log"
    before = cpu()
    started = time.perf_counter()
    done = subprocess.run(
        [
            *(str(server.program("pgbench")), "--no-vacuum", "--protocol=simple", f"--client={clients}"),
            *(f"--jobs={min(clients, 2)}", f"--transactions={transactions}", f"--file={path}"),
            *("-D", "i=-1", "-D", f"first={first}", "-D", f"clients={clients}"),
            *("--log", f"--log-prefix={prefix}", "--exit-on-abort"),
            *("--host", HOST, "--port", str(server.port), "--username", server.user, server.database),
        ],
        cwd=directory,
        env={"PGPASSWORD": urlsplit(server.url).password or "", "PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise PgbenchError(done.stderr[-2000:])
    elapsed = time.perf_counter() - started
    spent = cpu() - before
    timings: list[tuple[str, float]] = []
    for log in directory.glob("pgbench-log.*"):
        lines = log.read_text(encoding="utf-8").splitlines()
        timings += [("", int(line.split()[_LATENCY_FIELD]) / 1_000_000) for line in lines]
        log.unlink()
    found = _TPS.search(done.stdout)
    # pgbench's rate excludes the time for connecting.
    seconds = len(timings) / float(found[1]) if found else elapsed
    return Run(seconds, timings, Counter({200: len(timings)}), Cpu(database=spent))
