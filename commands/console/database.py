"""Database access for commands, and the operator as an actor of the audit trail."""

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
    """Build the services for domain operations. Connections open on first use."""
    configure_command_logging(get_settings())
    return Services.from_settings(get_settings(), application_name="marketplace command")


@contextmanager
def read_session() -> Iterator[Session]:
    """Open a session for reading. Each statement is a transaction of its own."""
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
