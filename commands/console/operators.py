"""The operator who runs a command, for the audit."""

import getpass
from datetime import datetime

from marketplace.audit.operations import Act


def build_operator_act(now: datetime) -> Act:
    """Build the act of the operating system's account that runs the command."""
    try:
        return Act(f"operator {getpass.getuser()}", now)
    except (OSError, KeyError):
        return Act("operator", now)
