"""The database, for commands that look into it or write to it, and the operator who does so."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy.orm import Session

from commands.console.environment import get_settings
from marketplace.audit.operations import Act
from marketplace.infra.logs import configure_command_logging
from marketplace.services import Services


def build_services() -> Services:
    """Make what domain operations need; nothing is connected to before it is used."""
    configure_command_logging(get_settings())
    return Services.from_settings(get_settings(), application_name="marketplace command")


@contextmanager
def read_session() -> Iterator[Session]:
    """Give a session for reading, each statement for itself."""
    database = build_services().database
    with database.reading() as session:
        yield session
    database.close()


def build_operator_act(now: datetime) -> Act:
    """Build the act of the operating system's account that runs the command."""
    try:
        return Act(f"operator {getpass.getuser()}", now)
    except (OSError, KeyError):
        return Act("operator", now)
