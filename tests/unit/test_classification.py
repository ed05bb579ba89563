"""Classification of reconciliation differences: in transit, wrong, and the suggested action."""

import re
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from marketplace.reconciliation.classification import (
    AMOUNTS_DIFFER,
    IN_TRANSIT_TOLERANCE,
    MISSING_AT_GATEWAY,
    MISSING_IN_LEDGER,
    SETTLEMENT_TOLERANCE,
    STATUS_DIFFERS,
    SUGGESTIONS,
    Classification,
    classify,
)
from marketplace.reconciliation.matching import Difference
from marketplace.reconciliation.resolution import ALLOWED_RESOLUTIONS

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
LONG_AGO = NOW - SETTLEMENT_TOLERANCE
LATELY = LONG_AGO + timedelta(seconds=1)


def item(kind: str, here_minor: int, there_minor: int, **facts: Any) -> Difference:
    """Return a difference with the given sums and facts and no other values."""
    unknown: dict[str, Any] = dict.fromkeys(field.name for field in fields(Difference))
    sums = {"here_minor": here_minor, "here_now_minor": here_minor, "there_minor": there_minor}
    return Difference(**unknown | {"kind": kind} | sums | facts)


def payout(here_minor: int, there_minor: int, **facts: Any) -> Difference:
    """Return a difference of a payout that is paid in the ledger."""
    known = {"intent_id": 1, "here_status": "success", "here_amount_minor": 500}
    return item("payout", here_minor, there_minor, **known | facts)


SENT = {"gateway_id": "7", "moved_at": LONG_AGO}
LOOK_UP_PAYOUT = Classification(MISSING_AT_GATEWAY, "look_up_payout")
POLL_PAYOUT = Classification(STATUS_DIFFERS, "ask_about_payout")
COMPARE = Classification(AMOUNTS_DIFFER, "compare_amounts")
SETTLEMENT = Classification(MISSING_IN_LEDGER, "look_up_settlement")
UNRECOGNIZED_REFUND = Classification(MISSING_IN_LEDGER, "look_up_refund")
LOOK_UP = Classification(MISSING_AT_GATEWAY, "look_up_booking")


@pytest.mark.parametrize(
    ("found", "classification"),
    [
        # A settlement is in transit for three days, unless the gateway reports a final status.
        (item("settlement", 0, -500, moved_at=LATELY), None),
        (item("settlement", 0, -500, moved_at=LATELY, there_status="pending"), None),
        (item("settlement", 0, -500, moved_at=LONG_AGO), SETTLEMENT),
        (item("settlement", 0, -500, moved_at=LATELY, there_status="failed"), SETTLEMENT),
        (item("settlement", -500, 0), Classification(MISSING_AT_GATEWAY, "look_up_settlement")),
        (item("settlement", -500, -400, moved_at=LATELY), Classification(AMOUNTS_DIFFER, "compare_amounts")),
        # A dispute that is open or was closed recently may not be known to the other side yet.
        (item("dispute", 0, -500, moved_at=LONG_AGO, here_status="open"), None),
        (item("dispute", 0, -500, moved_at=LATELY, here_status="lost"), None),
        (
            item("dispute", 0, -500, moved_at=LONG_AGO, here_status="lost"),
            Classification(MISSING_IN_LEDGER, "compare_amounts"),
        ),
        (
            item("dispute", -400, -500, moved_at=LONG_AGO, here_status="lost"),
            Classification(AMOUNTS_DIFFER, "compare_amounts"),
        ),
        (item("dispute", -500, 0, booked_at=LATELY, here_status="lost"), None),
        (item("dispute", -500, 0, booked_at=LONG_AGO, here_status="lost"), LOOK_UP),
        # The event of a refund that a bank forced arrives with a delay.
        (item("gateway-refund", 0, -500, moved_at=NOW, dispute_id="7"), None),
        (
            item("gateway-refund", 0, -500, moved_at=NOW - IN_TRANSIT_TOLERANCE, dispute_id="7"),
            UNRECOGNIZED_REFUND,
        ),
        (item("gateway-refund", 0, -500, moved_at=NOW), UNRECOGNIZED_REFUND),
        # Unrecognized movements and movements that the gateway never made are reported at once.
        (
            item("gateway-transfer", 0, -500, moved_at=NOW),
            Classification(MISSING_IN_LEDGER, "look_up_transfer"),
        ),
        (item("movement", 0, -500, moved_at=NOW), Classification(MISSING_IN_LEDGER, "look_up_movement")),
        (item("movement", -500, 0, booked_at=NOW), LOOK_UP),
        (item("by-hand", 500, 0, booked_at=NOW), LOOK_UP),
        # An unrecognized charge, before and after the gateway refunded it.
        (item("charge", 0, 500), Classification(MISSING_IN_LEDGER, "look_up_charge")),
        (item("charge", 0, 100), Classification(MISSING_IN_LEDGER, "look_up_charge")),
        (item("charge", 0, -15), Classification(MISSING_IN_LEDGER, "bear_refunded_charge")),
        # A payout that is paid in the ledger and missing at the gateway, also if the gateway moved the money before.
        (payout(-500, 0), LOOK_UP_PAYOUT),
        (payout(-500, 0, gateway_id="7", moved_at=NOW), LOOK_UP_PAYOUT),
        (payout(-500, 0, gateway_id="7", moved_at=NOW, there_status="reversed"), None),
        (payout(-500, 0, gateway_id="7", there_status="reversed"), POLL_PAYOUT),
        # A difference that finance accepted stays accepted until amounts differ as well.
        (payout(-500, -500, there_amount_minor=600, there_status="success", **SENT), COMPARE),
        (payout(-500, -600, there_amount_minor=600, there_status="success", accepted=True, **SENT), COMPARE),
        # A posting made while the gateway was read already agrees.
        (replace(item("movement", 0, 500), here_now_minor=500), None),
    ],
)
def test_difference_is_classified(found: dict[str, Any], classification: Classification | None) -> None:
    assert classify(found, now=NOW) == classification


@pytest.mark.parametrize("action", SUGGESTIONS)
def test_suggested_actions_are_allowed_resolutions(action: str) -> None:
    assert set(re.findall(r"`(\w+)`", SUGGESTIONS[action])) <= ALLOWED_RESOLUTIONS[action]
