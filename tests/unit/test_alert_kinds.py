"""Alert kinds: every kind is raised somewhere, explained, and assigned to a permission."""

import re
from pathlib import Path
from typing import get_args

import pytest

from marketplace.alerts import kinds
from marketplace.alerts.kinds import ALERT_KINDS, AlertKind
from marketplace.identity.permissions import (
    MANAGE_COMPLIANCE,
    MANAGE_DISPUTES,
    MANAGE_FINANCES,
    MANAGE_PLATFORM,
)
from marketplace.kernel.redaction import redact_text

PROJECT = Path(__file__).parents[2]
each_kind = pytest.mark.parametrize(("identifier", "kind"), ALERT_KINDS.items(), ids=ALERT_KINDS)


def sources() -> str:
    """Return the source text of all modules that may raise alerts."""
    roots = (PROJECT / "marketplace", PROJECT / "tasks")
    files = [path for root in roots for path in root.rglob("*.py") if path.parent.name != "alerts"]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@each_kind
def test_every_alert_kind_is_raised_in_sources(identifier: str, kind: AlertKind) -> None:
    assert re.search(rf"\b{identifier}\b", sources())


def test_each_identifier_has_a_kind() -> None:
    assert set(get_args(kinds.AlertIdentifier)) == ALERT_KINDS.keys()


@each_kind
def test_alert_kind_has_severity_permission_and_clear_texts(identifier: str, kind: AlertKind) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]{2,63}", identifier)
    assert kind.severity in kinds.SEVERITIES
    assert kind.permission in (MANAGE_COMPLIANCE, MANAGE_DISPUTES, MANAGE_FINANCES, MANAGE_PLATFORM)
    for text in (kind.meaning, kind.first_step):
        assert 40 < len(text) < 500
        assert text.endswith(".")
        # Logs and alert channels send the text unredacted.
        assert redact_text(text) == text
    assert kind.subject_description
    assert kind.resolution_rule


def test_log_calls_pass_no_severity() -> None:
    """Severities belong to alerts only."""
    assert not re.search(r"_log\.\w+\([^)]*severity=", sources(), re.DOTALL)
