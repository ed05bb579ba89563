"""The table of alerts: each is raised somewhere, explained, and somebody's to resolve."""

import re
from pathlib import Path
from typing import get_args

import pytest

from marketplace.alerts import kinds
from marketplace.alerts.kinds import ALERT_KINDS, AlertKind
from marketplace.identity.permissions import MANAGE_FINANCES, MANAGE_PLATFORM
from marketplace.kernel.redaction import redact_text

PROJECT = Path(__file__).parents[2]
each = pytest.mark.parametrize(("identifier", "kind"), ALERT_KINDS.items(), ids=ALERT_KINDS)


def sources() -> str:
    """Give the text of all that may raise an alert."""
    roots = (PROJECT / "marketplace", PROJECT / "tasks")
    files = [path for root in roots for path in root.rglob("*.py") if path.parent.name != "alerts"]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@each
def test_it_is_raised_somewhere(identifier: str, kind: AlertKind) -> None:
    assert re.search(rf"\b{identifier}\b", sources())


def test_each_identifier_has_a_kind() -> None:
    assert set(get_args(kinds.AlertIdentifier)) == ALERT_KINDS.keys()


@each
def test_it_says_what_somebody_who_was_woken_up_needs(identifier: str, kind: AlertKind) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]{2,63}", identifier)
    assert kind.severity in kinds.SEVERITIES
    assert kind.permission in (MANAGE_FINANCES, MANAGE_PLATFORM)
    for text in (kind.meaning, kind.first_step):
        assert 40 < len(text) < 500
        assert text.endswith(".")
        # It is sent and logged as it is.
        assert redact_text(text) == text
    assert kind.subject_description
    assert kind.resolution_rule


def test_no_log_line_has_a_severity_of_its_own() -> None:
    """What somebody must see to is an alert."""
    assert not re.search(r"_log\.\w+\([^)]*severity=", sources(), re.DOTALL)
