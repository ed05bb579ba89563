"""The complete stack on one machine: ``python -m sandbox.stack up|status|reset``.

PORT (8000) is the public port, and DATA_DIR (.data) is the directory of all state. Set DATABASE_URL, REDIS_URL,
S3_ENDPOINT_URL, GATEWAY_URL, IDENTITY_ISSUER, AI_URL, SMS_URL or ALERT_CHAT_URL to use an external server or
provider instead of the embedded one.
"""

import argparse
import errno
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from marketplace.kernel import queues
from sandbox.configuration import (
    PROJECT,
    Configuration,
    Layout,
    StackError,
    configure,
    migrations_fingerprint,
    read_layout,
    read_port,
)
from sandbox.files import write_private
from sandbox.lock import held_lock, is_locked, lock_owner
from sandbox.ports import NoFreePortError, PortReservation, port_fault
from sandbox.process import ProcessFailedError, wait_until
from sandbox.providers.scale import SCALE_FOLDER
from sandbox.reporting import Console, banner
from sandbox.secondary_workers import SecondaryWorkers
from sandbox.servers import http_status
from sandbox.services import EXPECTED_FAILURE_STATUS, Services
from sandbox.signals import StopRequestedError, StopSignals
from sandbox.supervisor import Supervisor

_PREPARE_SECONDS = 300.0
_READY_SECONDS = 60.0
_NOT_RUNNING_STATUS = 3  # the exit status of `service NAME status`


def main(arguments: list[str] | None = None) -> int:
    """Run a command of the stack.

    :return: the exit status
    """
    parser = argparse.ArgumentParser(prog="python -m sandbox.stack", description=__doc__)
    parser.add_argument("command", choices=["up", "status", "reset"], nargs="?", default="up")
    command = parser.parse_args(arguments).command
    console = Console()
    try:
        return {"up": up, "status": status, "reset": reset}[command](os.environ, console)
    except (StackError, ProcessFailedError, NoFreePortError) as error:
        console.problem(f"\n{error}")
    except PermissionError as error:
        console.problem(
            f"\n{error.filename} is not accessible ({error.strerror}). It may belong to another user."
            " Choose another directory: DATA_DIR=/some/where make run"
        )
    return 1


def up(environ: Mapping[str, str], console: Console) -> int:
    """Run the stack until a signal stops it.

    :raises StackError: the stack could not start or continue; every process has been stopped
    """
    started = time.monotonic()
    layout = read_layout(environ)
    port = read_port(environ)
    layout.make()
    with StopSignals() as signals:
        try:
            with held_lock(layout.lock, report=console.line, pause=signals.pause) as lock:
                _require_port(port)
                _report_killed_run(layout, console)
                _run(environ, layout, console, signals=signals, lock=lock, started=started)
        except StopRequestedError:
            console.line("Stopped.")
    return 0


def status(environ: Mapping[str, str], console: Console) -> int:
    """Print whether the stack runs and is ready, and list its processes.

    :return: 0 when the stack is ready, 1 when it is running but not ready, 3 when it is not running
    """
    layout = read_layout(environ)
    if not is_locked(layout.lock) or not layout.state.exists():
        console.line(f"No stack is running in {layout.root}.")
        return _NOT_RUNNING_STATUS
    state = json.loads(layout.state.read_text(encoding="utf-8"))
    ready = http_status(state["port"], "/health/ready") == 200
    console.line(f"http://127.0.0.1:{state['port']} is {'ready' if ready else 'not ready'}.")
    for name, process_id in {"supervisor": state["process"], **state["services"]}.items():
        console.step(name, f"process {process_id}")
    return 0 if ready else 1


def reset(environ: Mapping[str, str], console: Console) -> int:
    """Delete all state of a stopped stack.

    :raises StackError: the stack is running, or the directory does not belong to a stack
    """
    layout = read_layout(environ)
    if not layout.root.exists():
        console.line(f"Nothing to remove: {layout.root} does not exist.")
        return 0
    if is_locked(layout.lock):
        raise StackError(
            f"A stack is running in {layout.root} (process {lock_owner(layout.lock)}). Stop it first, with Ctrl-C or"
            " SIGTERM."
        )
    root = layout.root.resolve()
    if root in {Path.home().resolve(), PROJECT, *PROJECT.parents} or not layout.lock.exists():
        raise StackError(f"{root} is not a stack's data directory. Nothing was removed.")
    shutil.rmtree(root)
    console.line(f"Removed {root}.")
    return 0


def _run(
    environ: Mapping[str, str],
    layout: Layout,
    console: Console,
    *,
    signals: StopSignals,
    lock: int,
    started: float,
) -> None:
    configuration, reservation = configure(environ, layout)
    supervisor = Supervisor(console, pause=signals.pause)
    try:
        _start(configuration, reservation, supervisor, console, signals=signals, lock=lock)
        _write_state(configuration, supervisor)
        for line in banner(configuration, seconds=time.monotonic() - started):
            console.line(line)
        workers = SecondaryWorkers(
            supervisor,
            Services(configuration, lock=lock),
            console,
            folder=layout.root / "providers" / SCALE_FOLDER,
        )
        supervisor.watch(on_change=lambda: _write_state(configuration, supervisor), adjust=workers.adjust)
    except StopRequestedError:
        console.line("\nStopping: running requests and tasks finish first, databases stop last.")
        raise
    finally:
        reservation.close()
        supervisor.stop()
        layout.state.unlink(missing_ok=True)


def _start(
    configuration: Configuration,
    reservation: PortReservation,
    supervisor: Supervisor,
    console: Console,
    *,
    signals: StopSignals,
    lock: int,
) -> None:
    console.heading(f"Starting the marketplace (data directory {configuration.layout.root})")
    _write_state(configuration, supervisor)
    services = Services(configuration, lock=lock)
    for server, names in services.servers():
        supervisor.add_server(server, before_binding=partial(reservation.release, *names))
    if configuration.uses_sandbox:
        reservation.release("providers", "mail")
        supervisor.add_service(services.providers(), stops_late=True)
    supervisor.wait_for_servers()
    _prepare(configuration, services, console, signals=signals)
    reservation.release("web", "waiting", "metrics")
    with console.timed("application", "web processes, workers and proxy are ready"):
        for process in (
            services.web(),
            services.waiting(),
            services.metrics(),
            *map(services.worker, queues.NAMES),
        ):
            supervisor.add_service(process)
        supervisor.add_service(services.proxy().prepare())
        supervisor.wait_for(
            lambda: http_status(configuration.port, "/health/ready") == 200,
            what="Starting the application",
            timeout_seconds=_READY_SECONDS,
        )


def _prepare(
    configuration: Configuration, services: Services, console: Console, *, signals: StopSignals
) -> None:
    """Upgrade the database and seed an empty one, unless already done for the same migrations."""
    fingerprint = migrations_fingerprint()
    prepared = configuration.layout.prepared
    ours = configuration.embedded_database and configuration.embedded_storage
    if ours and prepared.exists() and prepared.read_text(encoding="utf-8") == fingerprint:
        return
    with console.timed("database", "schema is up to date, demo data is loaded"):
        process = services.prepare()
        process.launch()
        try:
            ended = wait_until(
                lambda: not process.running, timeout_seconds=_PREPARE_SECONDS, pause=signals.pause
            )
            if process.exit_status == EXPECTED_FAILURE_STATUS:
                raise StackError(process.log_tail())
            if not ended or process.exit_status != 0:
                raise process.failure("could not upgrade the database")
        finally:
            process.stop()
    if ours:
        write_private(prepared, fingerprint)


def _write_state(configuration: Configuration, supervisor: Supervisor) -> None:
    state = {"process": os.getpid(), "port": configuration.port, "services": supervisor.process_ids()}
    write_private(configuration.layout.state, json.dumps(state, indent=2))


def _require_port(port: int) -> None:
    fault = port_fault(port)
    if fault == errno.EACCES:
        raise StackError(f"Port {port} needs root privileges. Choose another port: PORT=8000 make run")
    if fault is not None:
        raise StackError(
            f"Port {port} is taken by another program. Choose another port: PORT={port + 1} make run"
        )


def _report_killed_run(layout: Layout, console: Console) -> None:
    if layout.state.exists():
        console.line("The last run was killed. The databases recover by themselves.")


if __name__ == "__main__":
    sys.exit(main())
