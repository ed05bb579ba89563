"""The database, for commands that look into it or write to it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy.orm import Session

from commands.environment import settings
from marketplace.infra.db import Database
from marketplace.infra.logs import redact_event
from marketplace.infra.settings import Settings
from marketplace.services import Services


def services() -> Services:
    """This function will make what domain operations need; nothing is connected to before it is used."""
    _log_warnings_to_standard_error()
    return Services.from_settings(settings(), application_name="marketplace command")


def database(current: Settings | None = None) -> Database:
    """This function will give the database of the settings.

    :param current: the settings; none means those in force
    """
    _log_warnings_to_standard_error()
    return Database((current or settings()).database_url, pool_size=1, application_name="marketplace command")


@contextmanager
def reading() -> Iterator[Session]:
    """This function will give a session for reading, each statement for itself."""
    opened = database()
    with opened.reading() as session:
        yield session
    opened.close()


def _log_warnings_to_standard_error() -> None:
    """Standard output is the command's own: what the service logs goes beside it, warnings and worse."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            redact_event,
            structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(30),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
