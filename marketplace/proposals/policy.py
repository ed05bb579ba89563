"""Rules about the officers who may see, file and decide proposals of each kind."""

from collections.abc import Iterable
from uuid import UUID

from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictOfInterestError, PermissionRequiredError, StepUpRequiredError
from marketplace.proposals import texts
from marketplace.proposals.change import Payload
from marketplace.proposals.kinds import CHANGES


def visible_kinds(permissions: Iterable[str]) -> frozenset[str]:
    """Return the kinds of proposals that an officer with these permissions may see and decide."""
    held = frozenset(permissions)
    return frozenset(kind for kind, change in CHANGES.items() if change.permission in held)


def ensure_may_file(caller: Caller, *, kind: str) -> None:
    """Check that an officer may file a proposal of a kind.

    :raises PermissionRequiredError: the officer lacks the kind's permission
    :raises StepUpRequiredError: the kind requires two factors
    """
    change = CHANGES[kind]
    if not caller.has_permission(change.permission):
        raise PermissionRequiredError(f"Your account needs the permission {change.permission}.")
    if change.requires_second_factor and caller.aal != "aal2":
        raise StepUpRequiredError


def ensure_not_concerned(*, kind: str, payload: Payload, officer_id: UUID) -> None:
    """Check that a change does not concern the officer who files or approves it.

    :raises ConflictOfInterestError: the change concerns the officer
    """
    if CHANGES[kind].concerned_person(payload) == officer_id:
        raise ConflictOfInterestError(texts.OWN_WALLET)
