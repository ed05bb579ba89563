"""Where a command finds its settings, and the database behind them."""

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import commands
from commands.console.failures import CommandFailedError
from marketplace.infra.settings import (
    EMBEDDED_ENVIRONMENT_FILE,
    Settings,
    load_settings,
    read_embedded_environment,
)

# The embedded stack's own default: it does not depend on where the command is called.
DEFAULT_DATA_DIRECTORY = Path(commands.__path__[0]).resolve().parent / ".data"


def read_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the variables that settings are read from.

    :param environ: variables; none means the process's own
    :return: these, with the embedded stack's for all that is not given, unless DATABASE_URL is
    :raises CommandFailedError: there is neither
    """
    variables = {name: value for name, value in (os.environ if environ is None else environ).items() if value}
    directory = variables.get("DATA_DIR") or str(DEFAULT_DATA_DIRECTORY)
    embedded = read_embedded_environment({**variables, "DATA_DIR": directory})
    if not embedded and "DATABASE_URL" not in variables:
        raise CommandFailedError(
            f"There are no settings: DATABASE_URL is not set, and no embedded stack has left its own in"
            f" {Path(directory) / EMBEDDED_ENVIRONMENT_FILE}.\n"
            "Start one with `make run` (DATA_DIR names another directory), or set the variables."
        )
    return embedded | variables


@functools.cache
def get_settings() -> Settings:
    """Read the settings, once.

    :raises CommandFailedError: there are none
    :raises SettingsError: some can't be used
    """
    return load_settings(read_environment())
