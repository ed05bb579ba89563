"""Operator commands: the help of all commands, and the output of commands that only read or do no harm."""

import re

from tests.recorded_requests.player import UNKNOWN_ID, Player

_READING: tuple[tuple[str, ...], ...] = (
    ("db", "current"), ("db", "check"), ("db", "upgrade"), ("seed", "--if-empty"), ("config", "show"), ("config", "get", "GATEWAY_NAME"),
    ("config", "get", "NOTHING"), ("config", "get", "DATABASE_URL_"), ("webhooks", "list"), ("webhooks", "list", "--state", "dead"),
    ("webhooks", "list", "--causes"), ("webhooks", "list", "--limit", "0"), ("webhooks", "list", "--since", "soon"), ("webhooks", "list", "--json", "--limit", "2"),
    ("webhooks", "show", UNKNOWN_ID), ("webhooks", "show", "no-id"), ("webhooks", "replay"), ("webhooks", "replay", "--all", "--dry-run"),
    ("webhooks", "replay", "--type", "charge.success", "--dry-run"), ("webhooks", "replay", "--all", "--dry-run", "--json"), ("webhooks", "replay", "--id", UNKNOWN_ID),
    ("alerts", "list"), ("alerts", "list", "--state", "all"), ("alerts", "list", "--severity", "SEV-1"), ("alerts", "show", UNKNOWN_ID), ("alerts", "resolve", UNKNOWN_ID),
    ("ledger", "verify"), ("audit", "verify"), ("payouts", "list"), ("payouts", "list", "--status", "all"), ("payouts", "show", UNKNOWN_ID),
    ("payouts", "reconcile"), ("payouts", "reconcile", "--from", "never"), ("periodic", "list"), ("periodic", "show", "stage-payouts"), ("periodic", "show", "nothing"),
    ("periodic", "run", "nothing"), ("periodic", "run", "purge-outbox", "--now", "x"), ("periodic", "resume", "stage-payouts"), ("periodic", "pause", "stage-payouts"),
    ("periodic", "pause", "stage-payouts", "--x"), ("periodic", "schedule", "stage-payouts", "daily"), ("queues",), ("workers",), ("proxy", "caddyfile"),
    ("token", "bob"), ("token", "buyer", "--claims", "["), ("tokn",), ("frobnicate",), ("webhooks",), ("webhooks", "lst"), (),
)  # fmt: skip


def play(player: Player) -> None:
    """Run operator commands."""
    commands = player.help_of()
    for command in commands:
        for below in player.help_of(command):
            player.help_of(command, below)
    for arguments in _READING:
        player.command(f"command: {' '.join(arguments)}", *arguments)
    _show_latest(player, "webhooks", "--limit", "1")
    _show_latest(player, "alerts")
    _show_latest(player, "payouts", "--status", "all")
    player.ask("schedule after the commands", "GET", "/api/admin/periodic", who="admin", aal2=True)


def _show_latest(player: Player, group: str, *options: str) -> None:
    """Show the latest row of a list command."""
    found = re.search(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", player.run_unrecorded(group, "list", *options)
    )
    player.command(f"command: {group} show the latest", group, "show", found[0] if found else UNKNOWN_ID)
