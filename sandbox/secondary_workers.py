"""Second workers of queues, as the application requests them through the scale hook."""

from pathlib import Path

from sandbox.providers.scale import read_requests
from sandbox.reporting import Console
from sandbox.services import Services
from sandbox.supervisor import Supervisor


class SecondaryWorkers:
    """The second workers of the running stack."""

    def __init__(self, supervisor: Supervisor, services: Services, console: Console, *, folder: Path) -> None:
        """Begin without second workers.

        :param folder: the requests that the scale hook stores
        """
        self._supervisor = supervisor
        self._services = services
        self._console = console
        self._folder = folder
        self._running: set[str] = set()
        # Requests of an earlier run are over.
        for queue in read_requests(folder):
            (folder / queue).unlink()

    def adjust(self) -> bool:
        """Start and stop workers as requested, and return whether anything changed."""
        requested = {queue for queue, workers in read_requests(self._folder).items() if workers > 1}
        for queue in requested - self._running:
            name = f"worker-{queue}-2"
            self._supervisor.add_service(self._services.worker(queue, name=name))
            self._console.step(name, "started, because the queue does not move")
        for queue in self._running - requested:
            self._supervisor.remove_service(f"worker-{queue}-2")
            self._console.step(f"worker-{queue}-2", "stopped, because the queue moves again")
        changed = requested != self._running
        self._running = requested
        return changed
