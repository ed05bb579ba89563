"""Stored payloads with sealed values, opened for tests."""

from typing import Any

import orjson
from sqlalchemy.orm import Session

from marketplace.audit.person_keys import unseal
from marketplace.webhooks.stored_payloads import SEALED_VALUES


def open_payload(session: Session, payload: dict[str, Any]) -> Any:
    """Replace the sealed values of a payload by the values. Lost values are none."""
    words = unseal(session, payload[SEALED_VALUES])
    values = None if words is None else orjson.loads(words)
    return _open({name: item for name, item in payload.items() if name != SEALED_VALUES}, values)


def _open(value: Any, values: list[Any] | None) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"sealed"}:
            return None if values is None else values[value["sealed"]]
        return {name: _open(item, values) for name, item in value.items()}
    if isinstance(value, list):
        return [_open(item, values) for item in value]
    return value
