"""The database, for commands that look into it or write to it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from commands.console.environment import get_settings
from marketplace.infra.db import Database
from marketplace.infra.encryption import make_keyring, use_keyring
from marketplace.infra.logs import configure_command_logging
from marketplace.infra.settings import Settings
from marketplace.services import Services


def build_services() -> Services:
    """Make what domain operations need; nothing is connected to before it is used."""
    configure_command_logging(get_settings())
    return Services.from_settings(get_settings(), application_name="marketplace command")


def open_database(current: Settings | None = None) -> Database:
    """Give the database of the settings.

    :param current: the settings; none means those in force
    """
    settings = current or get_settings()
    configure_command_logging(settings)
    use_keyring(make_keyring(settings.data_encryption_keys, settings.blind_index_key))
    return Database(
        settings.database_url,
        pool_size=1,
        application_name="marketplace command",
        prepared_statements=settings.database_prepared_statements == "on",
    )


@contextmanager
def read_session() -> Iterator[Session]:
    """Give a session for reading, each statement for itself."""
    opened = open_database()
    with opened.reading() as session:
        yield session
    opened.close()
