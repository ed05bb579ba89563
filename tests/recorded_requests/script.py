"""The whole script: all chapters in playing order."""

from pathlib import Path

from tests.recorded_requests import (
    banking,
    buying,
    catalog,
    edge,
    operators,
    paying,
    payouts,
    platform,
    promotions,
    refunds,
    sweep,
    webhooks,
)
from tests.recorded_requests.player import Player

# Scheduled runs of these tasks would make a recording depend on the time. The script runs the tasks explicitly.
_BY_THE_CLOCK = (
    "expire-checkouts", "hold-overdue-listings", "flag-stalled-intents", "requery-refunds",
    "requery-transfers", "collect-debts", "stage-payouts", "check-invariants", "apply-proposals",
    "reconcile-escrow", "purge-idempotency-keys", "purge-inbox", "purge-outbox", "sweep-images",
    "refresh-search-terms", "flush-statistics", "purge-statistics",
)  # fmt: skip
CHAPTERS = {
    "sweep": sweep.play,
    "edge": edge.play,
    "catalog": catalog.play,
    "promotions": promotions.play,
    "buying": buying.play,
    "paying": paying.play,
    "refunds": refunds.play,
    "banking": banking.play,
    "payouts": payouts.play,
    "platform": platform.play,
    "webhooks": webhooks.play,
    "operators": operators.play,
    "limits": edge.use_up_a_quota,
    "retried": webhooks.send_retried_events,
}


def play(player: Player, *, openapi: Path | None, only: list[str] | None) -> None:
    """Play the script.

    :param openapi: the file to store the OpenAPI document in
    :param only: the names of the chapters to play, or None for all
    """
    for task in _BY_THE_CLOCK:
        player.run_unrecorded("periodic", "pause", task)
    document = player.ask("openapi", "GET", "/openapi.json")
    if openapi is not None:
        openapi.write_bytes(document.content.replace(player.base_url.encode(), b"<base>"))
    for name, chapter in CHAPTERS.items():
        if only is None or name in only:
            chapter(player)
