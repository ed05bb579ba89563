"""Incoming webhooks: signatures, bodies, the handshake, messages, dead letters, replays and alerts."""

import gzip
import json
from typing import Any

from tests.recorded_requests.player import UNKNOWN_ID, Player

_PATHS = ("/api/payments/webhook", "/functions/v1/gateway-webhook", "/api/v1/payments/webhook")
_ADMIN_WEBHOOKS = "/api/admin/webhooks"
_NOTE = "Looked into by an officer."


def play(player: Player) -> None:
    """Send valid and invalid webhooks."""
    _signatures(player)
    _events(player)
    _messages(player)
    _admin_webhooks(player)
    _alerts(player)


def _signatures(player: Player) -> None:
    raw, headers = player.signed({"event": "customer.recorded", "data": {"id": 1}})
    name, signature = "x-gateway-signature", headers["x-gateway-signature"]
    for path in _PATHS:
        for step, given in {
            "none": None, "empty": "", "short": signature[:-1], "upper case": signature.upper(), "no hex": "z" * 128, "another": "0" * 128,
        }.items():  # fmt: skip
            sent = {"Content-Type": "application/json"} if given is None else {**headers, name: given}
            player.ask(f"{path}, signature {step}", "POST", path, raw=raw, headers=sent)
        player.ask(f"{path}, changed byte", "POST", path, raw=raw + b" ", headers=headers)
        player.ask(f"{path}, right", "POST", path, raw=raw, headers=headers)
        player.ask(
            f"{path}, with a query and a token",
            "POST",
            path,
            raw=raw,
            headers=headers,
            query={"a": "b"},
            who="suspended",
        )
        player.ask(f"{path}, too large", "POST", path, raw=b"a" * 1_100_000, headers=headers)
        player.ask(
            f"{path}, compressed",
            "POST",
            path,
            raw=gzip.compress(raw, mtime=0),
            headers={**headers, "Content-Encoding": "gzip"},
        )
        player.ask(f"{path}, got", "GET", path)


def _events(player: Player) -> None:
    """Send events that can never succeed, and events of unrecognized types or about unrecognized objects."""
    recipient = {
        "recipient_code": "RCP_recorded1",
        "details": {"account_number": "0123456789", "bank_code": "058", "bank_name": "A Bank"},
    }
    transfer = {"amount": 500_000, "currency": "NGN", "domain": "test", "integration": 100_073, "reason": "Payout", "source": "balance",
                "reference": f"payout-{'a' * 32}", "transfer_code": "TRF_recorded1", "recipient": recipient}  # fmt: skip
    refund = {"transaction_reference": f"checkout-{'b' * 32}", "refund_reference": None, "amount": "310050", "currency": "NGN", "processor": "x",
              "customer": {"email": "ada@example.edu"}, "integration": 100_073, "domain": "test"}  # fmt: skip
    events: dict[str, Any] = {
        "unknown type": {"event": "subscription.create", "data": {"id": 11}},
        "charge without amount": {"event": "charge.success", "data": {"id": 900_001, "reference": f"checkout-{'c' * 32}"}},
        "charge in dollars and text": {"event": "charge.success", "data": {"id": 900_002, "reference": f"checkout-{'c' * 32}", "amount": "5", "currency": "USD"}},
        "no type": {"data": {"id": 12}},
        "a list": [1, 2],
        "transfer unexpected": {"event": "transfer.success", "data": {**transfer, "id": 910_001, "status": "success"}},
        "transfer unexpected, again": {"event": "transfer.success", "data": {**transfer, "id": 910_001, "status": "success"}},
        "transfer failed": {"event": "transfer.failed", "data": {**transfer, "id": 910_002, "status": "failed", "reference": f"payout-{'d' * 32}"}},
        "refund of nothing": {"event": "refund.processed", "data": {**refund, "status": "processed"}},
    }  # fmt: skip
    for step, event in events.items():
        raw, headers = player.signed(event)
        player.ask(f"event, {step}", "POST", _PATHS[0], raw=raw, headers=headers)
        _wait_until_processed(player, step)
    raw, headers = player.signed("x")
    player.ask("event, words", "POST", _PATHS[0], raw=raw, headers=headers)
    _wait_until_processed(player, "words")


def _wait_until_processed(player: Player, what: str) -> None:
    player.wait(
        f"the event {what} is worked off",
        lambda: (
            not player.fetch("GET", _ADMIN_WEBHOOKS, who="finance", query={"state": "waiting"}).get(
                default=[]
            )
        ),
    )


def _messages(player: Player) -> None:
    path = "/api/whatsapp/webhook"
    for step, query in {
        "right": {"hub.mode": "subscribe", "hub.verify_token": player.verify_token, "hub.challenge": "12345"},
        "wrong token": {"hub.mode": "subscribe", "hub.verify_token": "x", "hub.challenge": "12345"},
        "wrong mode": {"hub.mode": "x", "hub.verify_token": player.verify_token, "hub.challenge": "12345"},
        "no challenge": {"hub.mode": "subscribe", "hub.verify_token": player.verify_token}, "nothing": {},
    }.items():  # fmt: skip
        before = len(player.entries)
        player.ask(f"handshake, {step}", "GET", path, query=query)
        player.entries[before]["query"] = dict.fromkeys(query, "<given>")
    value = {
        "messaging_product": "whatsapp", "metadata": {"display_phone_number": "2347000000000", "phone_number_id": "1"},
        "contacts": [{"profile": {"name": "Ada"}, "wa_id": "2348031234567"}],
        "messages": [{"from": "2348031234567", "id": "wamid.recorded1", "timestamp": "1790000000", "text": {"body": "Hello"}, "type": "text"}],
    }  # fmt: skip
    for step, sent in {
        "message": {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}]},
        "none": {"object": "whatsapp_business_account", "entry": []}, "other": {"object": "page"},
    }.items():  # fmt: skip
        player.ask(
            f"messaging, {step}",
            "POST",
            path,
            raw=json.dumps(sent).encode(),
            headers={"Content-Type": "application/json"},
        )
        _wait_until_processed(player, f"messaging {step}")
    player.ask("messaging, no JSON", "POST", path, raw=b"{", headers={"Content-Type": "application/json"})
    _wait_until_processed(player, "messaging no JSON")


def send_retried_events(player: Player) -> None:
    """Send events that are retried repeatedly. Later steps would depend on the time of the retries."""
    status = {
        "id": "wamid.recorded2",
        "status": "delivered",
        "timestamp": "1790000000",
        "recipient_id": "2348031234567",
    }
    value = {"messaging_product": "whatsapp", "metadata": {"phone_number_id": "1"}, "statuses": [status]}
    sent = {
        "object": "whatsapp_business_account",
        "entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}],
    }
    headers = {"Content-Type": "application/json"}
    player.ask(
        "messaging, status of an unknown message",
        "POST",
        "/api/whatsapp/webhook",
        raw=json.dumps(sent).encode(),
        headers=headers,
    )
    raw, headers = player.signed({"event": "charge.success", "data": {"id": 930_001, "domain": "test", "status": "success",
        "reference": f"checkout-{'e' * 32}", "amount": 5_000, "currency": "NGN", "channel": "card", "paid_at": "2026-11-22T10:00:00.000Z",
        "created_at": "2026-11-22T10:00:00.000Z", "customer": {"id": 1, "email": "ada@example.edu"}, "metadata": {}}})  # fmt: skip
    player.ask("event, charge of an unknown payment", "POST", _PATHS[0], raw=raw, headers=headers)


def _admin_webhooks(player: Player) -> None:
    for name, query in {
        "latest": {"limit": "100"}, "dead": {"state": "dead"}, "ignored": {"state": "ignored"}, "processed": {"state": "processed", "type": "transfer.success"},
        "messaging": {"provider": "messaging"}, "error": {"error": "amount"}, "since": {"since": "2020-01-01T00:00:00Z", "limit": "2"}, "bad": {"state": "x", "provider": "y", "since": "z"},
    }.items():  # fmt: skip
        player.ask(f"webhooks, {name}", "GET", _ADMIN_WEBHOOKS, who="finance", query=query)
    paged = player.fetch("GET", _ADMIN_WEBHOOKS, who="finance", query={"limit": "2"})
    player.ask(
        "webhooks, next page",
        "GET",
        _ADMIN_WEBHOOKS,
        who="finance",
        query={"limit": "2", "cursor": str(paged.meta("next_cursor"))},
    )
    dead = player.fetch("GET", _ADMIN_WEBHOOKS, who="finance", query={"state": "dead"})
    one, other = dead.id(0, "id"), dead.id(1, "id")
    done = player.fetch("GET", _ADMIN_WEBHOOKS, who="finance", query={"state": "processed"}).id(0, "id")
    path = f"{_ADMIN_WEBHOOKS}/:webhookId"
    for name, webhook in (("dead", one), ("other dead", other), ("processed", done)):
        player.ask(f"webhook, {name}", "GET", path, webhook, who="finance")
        player.ask(
            f"replay, {name}, dry",
            "POST",
            f"{path}/replay",
            webhook,
            who="finance",
            aal2=True,
            body={"dryRun": True},
        )
        key = player.fresh_key()
        for step in ("", ", same key"):
            player.ask(
                f"replay, {name}{step}",
                "POST",
                f"{path}/replay",
                webhook,
                who="finance",
                aal2=True,
                key=key,
                body={},
            )
        player.ask(f"webhook, {name}, after", "GET", path, webhook, who="finance")
    player.ask("replay of nothing", "POST", f"{path}/replay", UNKNOWN_ID, who="finance", aal2=True, body={})


def _alerts(player: Player) -> None:
    path = "/api/admin/alerts"
    player.wait("the alerts are there", lambda: {"WEBHOOK_DEAD", "TRANSFER_UNKNOWN"} <= {
        row["identifier"] for row in player.fetch("GET", path, who="support", query={"limit": "100"}).get(default=[])
    })  # fmt: skip
    for name, query in {
        "open": {"limit": "100"}, "all": {"state": "all", "limit": "100"}, "SEV-1": {"severity": "SEV-1"}, "SEV-2": {"severity": "SEV-2"}, "dead": {"identifier": "WEBHOOK_DEAD"},
        "resolved": {"state": "resolved"}, "bad": {"state": "x", "severity": "SEV-9", "identifier": "X"},
    }.items():  # fmt: skip
        for who in ("support", "finance"):
            player.ask(f"alerts, {name}, for {who}", "GET", path, who=who, query=query)
    found = player.fetch("GET", path, who="finance", query={"identifier": "TRANSFER_UNKNOWN"}).id(0, "id")
    player.ask(
        "alert, short note", "POST", f"{path}/:alertId/resolve", found, who="finance", body={"note": "x"}
    )
    key = player.fresh_key()
    for step in ("", ", same key"):
        player.ask(
            f"alert, resolved{step}",
            "POST",
            f"{path}/:alertId/resolve",
            found,
            who="finance",
            key=key,
            body={"note": _NOTE},
        )
    player.ask(
        "alert, resolved twice",
        "POST",
        f"{path}/:alertId/resolve",
        found,
        who="finance",
        body={"note": _NOTE},
    )
    drift = player.fetch("GET", path, who="finance", query={"identifier": "ESCROW_DRIFT", "state": "all"}).id(
        0, "id"
    )
    player.ask(
        "alert of a drift, resolved by hand",
        "POST",
        f"{path}/:alertId/resolve",
        drift,
        who="finance",
        body={"note": _NOTE},
    )
