"""Expected failures, explained to operators without a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from marketplace.infra.settings import SettingsError
from marketplace.kernel.errors import MarketplaceError, NotFoundError, ServiceUnavailableError

# SQLSTATEs of failures that an operator can fix.
_NEXT_STEPS = {
    "42P01": "The database lacks a table, so its schema is outdated. Run `marketplace db upgrade`.",
    "42703": "The database lacks a column, so its schema is outdated. Run `marketplace db upgrade`.",
    "3D000": "The database in DATABASE_URL does not exist. Create it first.",
    "28P01": "The database rejected the password in DATABASE_URL. Correct the password.",
    "28000": "The database rejected the user in DATABASE_URL. Check the user and the server's pg_hba.conf.",
    "42501": "The user in DATABASE_URL lacks a privilege that this command needs. Use a user with that privilege.",
}


class CommandFailedError(click.ClickException):
    """The expected failure of a command. The message is printed, and the process exits with status 1."""


@contextmanager
def explaining_missing(name: str, *, list_command: str) -> Iterator[None]:
    """Explain a missing row to the operator.

    :param name: kind and id of the row, such as ``alert 0199...``
    :param list_command: command that lists rows of this kind
    :raises CommandFailedError: the row does not exist
    """
    try:
        yield
    except NotFoundError as error:
        raise CommandFailedError(
            f"There is no {name}. Run `marketplace {list_command}` to find the right ID."
        ) from error


def explain_error(error: Exception) -> str | None:
    """Explain an expected error in words.

    :return: the explanation; None if the error is unexpected and needs a traceback
    """
    if isinstance(error, SettingsError):
        return f"Some settings are invalid:\n{error}"
    if isinstance(error, ServiceUnavailableError):
        return f"{error.detail} Check DATABASE_URL and the server. `make run` starts the embedded database."
    if isinstance(error, MarketplaceError):
        return error.detail
    return _explain_database_error(error)


def _explain_database_error(error: Exception) -> str | None:
    """Explain an error of the database driver or of SQLAlchemy. The driver may not be loaded at all."""
    driver = sys.modules.get("psycopg2")
    original = getattr(error, "orig", error)
    if driver is None or not isinstance(original, driver.Error):
        return None
    state = getattr(original, "pgcode", None)
    if state is None and isinstance(original, driver.OperationalError):
        reason = str(original).strip().splitlines()
        cause = reason[0] if reason else "unknown reason"
        return f"The database can't be reached ({cause}). Check DATABASE_URL and the server."
    return _NEXT_STEPS.get(state or "")
