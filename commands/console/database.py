"""The database, for commands that look into it or write to it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from commands.console.environment import get_settings
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
