"""Who runs a command, for the audit."""

import getpass

from marketplace.audit.operations import OPERATOR, AuditActor


def operator() -> AuditActor:
    """Name the operator by the account that runs the command."""
    try:
        return AuditActor(f"{OPERATOR.name} {getpass.getuser()}")
    except (OSError, KeyError):
        return OPERATOR
