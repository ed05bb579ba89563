"""The worker process of one queue: ``python -m tasks.worker QUEUE``."""

import sys

from marketplace.infra.logs import configure_error_tracking, configure_logging
from marketplace.infra.settings import SettingsError, load_settings
from marketplace.kernel import queues
from marketplace.services import Services
from tasks import sweeps
from tasks.relay import Relay, connect_nudges

_THREADS = 2


def main(arguments: list[str]) -> int:
    """This function will work on a queue until SIGTERM or SIGINT, and finish what it has begun.

    :param arguments: the queue's name
    :return: the process's exit status
    """
    if len(arguments) != 1 or arguments[0] not in queues.NAMES:
        sys.stderr.write(f"usage: python -m tasks.worker QUEUE, one of {', '.join(queues.NAMES)}\n")
        return 2
    try:
        settings = load_settings()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    configure_logging(settings)
    configure_error_tracking(settings)
    queue = arguments[0]
    services = Services.from_settings(settings, application_name=f"worker {queue}")
    relay = Relay(services)
    connect_nudges(relay)
    sweeps.schedule(queue, services, relay)
    consumer = relay.queues[queue].create_consumer(
        workers=_THREADS,
        worker_type="thread",
        periodic=True,
        graceful_signal="TERM",
        check_worker_health=True,
    )
    consumer.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
