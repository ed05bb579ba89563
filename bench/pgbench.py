"""The same SQL run bare by pgbench: what the database alone makes of it."""

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
_LATENCY_FIELD = 2  # of a line of pgbench's log, in microseconds


class PgbenchError(Exception):
    """pgbench failed; the message is the end of what it said."""


def script(
    *,
    settings: Sequence[str],
    prepared: Sequence[str],
    statements: Sequence[str],
    values: Mapping[str, str],
    captures: int | None,
) -> str:
    """Write a script of pgbench.

    :param settings: lines of ``\\set`` that make each transaction's numbers; ``i`` counts a client's
        transactions from 0
    :param prepared: sent once for each connection
    :param statements: in their order, with ``%(name)s`` where a value goes
    :param values: what goes there: variables of pgbench (``:name``) or SQL
    :param captures: the number of the statement whose one value is ``new_id`` to those after it, or none
    """
    lines = [r"\set i :i + 1", *settings]
    if prepared:
        lines += [r"\if :i = 0", *(f"{statement};" for statement in prepared), r"\endif"]
    for number, statement in enumerate(statements):
        filled = " ".join((statement % {**values, "new_id": ":new_id"}).split())
        # The column is called id, so the variable is new_id.
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
    """Run a script.

    :param server: runs
    :param directory: for the script and pgbench's own log
    :param content: the script
    :param clients: connections, each at work all the time
    :param transactions: of each client
    :param first: the number of the first row that may be used, to the script's ``first``
    :param cpu: reads the database's processor time in seconds
    :raises PgbenchError: it failed
    :raises subprocess.TimeoutExpired: it took longer than two minutes
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
    # Without the time that connecting took, as pgbench itself tells it.
    seconds = len(timings) / float(found[1]) if found else elapsed
    return Run(seconds, timings, Counter({200: len(timings)}), Cpu(database=spent))
