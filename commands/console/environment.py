"""Settings for commands, from environment variables or from the embedded stack."""

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

# The embedded stack's default, which does not depend on the working directory.
DEFAULT_DATA_DIRECTORY = Path(commands.__path__[0]).resolve().parent / ".data"


def read_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that settings are read from.

    Variables of the embedded stack fill in for missing variables, unless DATABASE_URL is set.

    :param environ: variables to read; by default those of the process
    :raises CommandFailedError: DATABASE_URL is not set, and no embedded stack was found
    """
    variables = {name: value for name, value in (os.environ if environ is None else environ).items() if value}
    directory = variables.get("DATA_DIR") or str(DEFAULT_DATA_DIRECTORY)
    embedded = read_embedded_environment({**variables, "DATA_DIR": directory})
    if not embedded and "DATABASE_URL" not in variables:
        raise CommandFailedError(
            "No settings were found: DATABASE_URL is not set, and there is no embedded stack"
            f" ({Path(directory) / EMBEDDED_ENVIRONMENT_FILE} is missing).\n"
            "Start the embedded stack with `make run`, set DATA_DIR to its directory, or set DATABASE_URL and the"
            " other variables."
        )
    return embedded | variables


@functools.cache
def get_settings() -> Settings:
    """Read the settings, once per process.

    :raises CommandFailedError: there are no settings
    :raises SettingsError: a setting is invalid
    """
    return load_settings(read_environment())
