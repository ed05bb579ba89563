"""Judging what a reconciliation found: what is on its way, what is wrong with the rest, and what is suggested."""

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
    """Give an item that only the sums, and these facts, are known of."""
    unknown: dict[str, Any] = dict.fromkeys(field.name for field in fields(Difference))
    sums = {"here_minor": here_minor, "here_now_minor": here_minor, "there_minor": there_minor}
    return Difference(**unknown | {"kind": kind} | sums | facts)


def payout(here_minor: int, there_minor: int, **facts: Any) -> Difference:
    """Give a payout that is paid, as the books have it."""
    known = {"intent_id": 1, "here_status": "success", "here_amount_minor": 500}
    return item("payout", here_minor, there_minor, **known | facts)


SENT = {"gateway_id": "7", "moved_at": LONG_AGO}
LOOK_UP_PAYOUT = Classification(MISSING_AT_GATEWAY, "look_up_payout")
ASK = Classification(STATUS_DIFFERS, "ask_about_payout")
COMPARE = Classification(AMOUNTS_DIFFER, "compare_amounts")
SETTLEMENT = Classification(MISSING_IN_LEDGER, "look_up_settlement")
FOREIGN_REFUND = Classification(MISSING_IN_LEDGER, "look_up_refund")
LOOK_UP = Classification(MISSING_AT_GATEWAY, "look_up_booking")


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        # What was sent to the bank is on its way for three days, unless the gateway says that it is over.
        (item("settlement", 0, -500, moved_at=LATELY), None),
        (item("settlement", 0, -500, moved_at=LATELY, there_status="pending"), None),
        (item("settlement", 0, -500, moved_at=LONG_AGO), SETTLEMENT),
        (item("settlement", 0, -500, moved_at=LATELY, there_status="failed"), SETTLEMENT),
        (item("settlement", -500, 0), Classification(MISSING_AT_GATEWAY, "look_up_settlement")),
        (item("settlement", -500, -400, moved_at=LATELY), Classification(AMOUNTS_DIFFER, "compare_amounts")),
        # What a bank takes for a dispute that is open, or was over lately, the other side may not have heard of.
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
        # A refund that a bank forced is told of by the dispute's event, which takes a while.
        (item("gateway-refund", 0, -500, moved_at=NOW, dispute_id="7"), None),
        (
            item("gateway-refund", 0, -500, moved_at=NOW - IN_TRANSIT_TOLERANCE, dispute_id="7"),
            FOREIGN_REFUND,
        ),
        (item("gateway-refund", 0, -500, moved_at=NOW), FOREIGN_REFUND),
        # What is none of ours is told at once, and so is what the gateway never moved.
        (
            item("gateway-transfer", 0, -500, moved_at=NOW),
            Classification(MISSING_IN_LEDGER, "look_up_transfer"),
        ),
        (item("movement", 0, -500, moved_at=NOW), Classification(MISSING_IN_LEDGER, "look_up_movement")),
        (item("movement", -500, 0, booked_at=NOW), LOOK_UP),
        (item("by-hand", 500, 0, booked_at=NOW), LOOK_UP),
        # A charge of nobody's, as it is and once it was refunded there.
        (item("charge", 0, 500), Classification(MISSING_IN_LEDGER, "look_up_charge")),
        (item("charge", 0, 100), Classification(MISSING_IN_LEDGER, "look_up_charge")),
        (item("charge", 0, -15), Classification(MISSING_IN_LEDGER, "bear_refunded_charge")),
        # A payout that was paid, as the books have it, and that the gateway does not have: also if it moved it once.
        (payout(-500, 0), LOOK_UP_PAYOUT),
        (payout(-500, 0, gateway_id="7", moved_at=NOW), LOOK_UP_PAYOUT),
        (payout(-500, 0, gateway_id="7", moved_at=NOW, there_status="reversed"), None),
        (payout(-500, 0, gateway_id="7", there_status="reversed"), ASK),
        # What finance has explained is explained, until money differs beside it.
        (payout(-500, -500, there_amount_minor=600, there_status="success", **SENT), COMPARE),
        (payout(-500, -600, there_amount_minor=600, there_status="success", accepted=True, **SENT), COMPARE),
        # What was booked while the gateway was read agrees by now.
        (replace(item("movement", 0, 500), here_now_minor=500), None),
    ],
)
def test_what_is_found_is_judged(found: dict[str, Any], verdict: Classification | None) -> None:
    assert classify(found, now=NOW) == verdict


@pytest.mark.parametrize("action", SUGGESTIONS)
def test_what_is_suggested_is_what_may_be_done_about_it(action: str) -> None:
    assert set(re.findall(r"`(\w+)`", SUGGESTIONS[action])) <= ALLOWED_RESOLUTIONS[action]
