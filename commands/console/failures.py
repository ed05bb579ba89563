"""Expected failures, told to people: what is wrong and what to do next, without a trace."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from marketplace.infra.settings import SettingsError
from marketplace.kernel.errors import MarketplaceError, NotFoundError, ServiceUnavailableError

# SQLSTATEs that an operator can do something about.
_NEXT_STEPS = {
    "42P01": "The database lacks a table: its schema is not up to date. Run `marketplace db upgrade`.",
    "42703": "The database lacks a column: its schema is not up to date. Run `marketplace db upgrade`.",
    "3D000": "The database that DATABASE_URL names does not exist. Create it first.",
    "28P01": "The database refused the password in DATABASE_URL.",
    "28000": "The database refused the user that DATABASE_URL names.",
    "42501": "The database's user lacks a privilege that this takes.",
}


class CommandFailedError(click.ClickException):
    """What failed, in words; the process ends with status 1."""


@contextmanager
def explaining_missing(name: str, *, list_command: str) -> Iterator[None]:
    """Say what to do where a row does not exist.

    :param name: of the row, such as ``alert as 0199...``
    :param list_command: the command that lists rows of its kind
    :raises CommandFailedError: the row does not exist
    """
    try:
        yield
    except NotFoundError as error:
        raise CommandFailedError(
            f"There is no such {name}; `marketplace {list_command}` shows those that there are."
        ) from error


def explain_error(error: Exception) -> str | None:
    """Say in words what an expected error means.

    :return: the words, or none if the error is not an expected one and its trace is wanted
    """
    if isinstance(error, SettingsError):
        return f"The settings can't be used:\n{error}"
    if isinstance(error, ServiceUnavailableError):
        return f"{error.detail} Is it running? DATABASE_URL names it; `make run` starts the embedded one."
    if isinstance(error, MarketplaceError):
        return error.detail
    return _explain_database_error(error)


def _explain_database_error(error: Exception) -> str | None:
    """Explain an error of the driver, or of SQLAlchemy around it, if one of them is in use at all."""
    driver = sys.modules.get("psycopg2")
    original = getattr(error, "orig", error)
    if driver is None or not isinstance(original, driver.Error):
        return None
    state = getattr(original, "pgcode", None)
    if state is None and isinstance(original, driver.OperationalError):
        reason = str(original).strip().splitlines()
        return f"The database can't be reached: {reason[0] if reason else 'no reason given'}"
    return _NEXT_STEPS.get(state or "")
