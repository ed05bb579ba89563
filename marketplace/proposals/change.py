"""The interface of a kind of proposal: validation, states before and after, effect and application."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity.permissions import MANAGE_PLATFORM

Payload = dict[str, Any]


class Change(ABC):
    """A kind of proposal. Payloads are stored as JSON with the field names of the API.

    ``ignores_prior_state`` marks a change whose approval stays valid when the target's prior state changes.
    Officers need ``permission``. With ``requires_second_factor``, filing needs AAL2 as approval always does. A kind
    that is not ``schedulable`` takes effect at the approval only.
    """

    ignores_prior_state: ClassVar[bool] = False
    permission: ClassVar[str] = MANAGE_PLATFORM
    requires_second_factor: ClassVar[bool] = False
    schedulable: ClassVar[bool] = True

    @abstractmethod
    def validate_payload(
        self, session: Session, payload_input: Mapping[str, Any], *, now: datetime
    ) -> Payload:
        """Validate a proposed payload and return the payload to store.

        :param payload_input: the parsed request, with the fields of the kind
        :param now: the time when the change would take effect
        :raises ValidationError: a value is out of range, or names a missing record
        :raises ConflictError: the target does not allow the change now
        """

    def lock_target(self, session: Session) -> None:  # noqa: B027 - most targets change by proposals only
        """Lock the target until the transaction ends, against changes other than proposals."""

    def concerned_person(self, payload: Payload) -> UUID | None:
        """Return the person whom the change concerns, who may not file or approve the change; none by default."""
        return None

    def target(self, payload: Payload) -> str:
        """Return the name of the change's target."""
        return str(payload["key"])

    @abstractmethod
    def current_state(self, session: Session, payload: Payload, *, now: datetime) -> dict[str, Any]:
        """Return the target's current state."""

    def proposed_state(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the target's proposed state."""
        return dict(payload)

    @abstractmethod
    def effect(self, session: Session, payload: Payload) -> dict[str, Any]:
        """Return the effect of the change, for the deciding officers."""

    @abstractmethod
    def apply(self, session: Session, payload: Payload, *, proposal_id: UUID, now: datetime) -> None:
        """Apply the change.

        :raises ConflictError: the target no longer allows the change
        """
