"""Stored payloads with sealed values, opened for tests."""

from typing import Any

from sqlalchemy.orm import Session

from marketplace.audit.person_keys import unseal


def open_payload(session: Session, value: Any) -> Any:
    """Replace sealed values of a payload by their texts."""
    if isinstance(value, dict):
        if value.keys() == {"sealed"}:
            return unseal(session, value["sealed"])
        return {name: open_payload(session, item) for name, item in value.items()}
    if isinstance(value, list):
        return [open_payload(session, item) for item in value]
    return value


def with_texts(value: Any) -> Any:
    """Replace the numbers of a payload by texts, as sealing does."""
    if isinstance(value, dict):
        return {name: with_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_texts(item) for item in value]
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
