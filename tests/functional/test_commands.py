"""Command ``marketplace``: effects, output and exit status of all subcommands."""

import base64
import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import UUID, uuid4

import jwt
import orjson
import pytest
from sqlalchemy import text

from blueprints.areas import contracts
from blueprints.http.contract import ProcessGroup
from commands.console.environment import DEFAULT_DATA_DIRECTORY
from commands.proxy import render_caddyfile
from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert
from marketplace.audit import anchors, archives
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.audit.signatures import sign_document
from marketplace.infra.db import Database
from marketplace.infra.encryption import EncryptedText, make_keyring, use_keyring
from marketplace.infra.settings import load_settings
from marketplace.kernel.clock import system_clock
from marketplace.providers.messaging.alert_channels import email_channel_name
from marketplace.providers.storage import S3ObjectStorage
from marketplace.webhooks import inbox as webhooks
from sandbox.configuration import read_layout
from sandbox.personas import persona_named, persona_names
from tests.support.encryption_keys import BLIND_INDEX_KEY, DATA_ENCRYPTION_KEYS
from tests.support.gateway_events import transfer_data
from tests.support.installation import (
    GATEWAY_KEY,
    PROJECT,
    Installation,
    marketplace,
    query,
    start_installation,
)
from tests.support.payouts import OWED_MINOR, approved_batch, make_payees, staged_batch
from tests.support.ports import free_port
from tests.support.purchases import make_product, make_shop, place, row_of
from tests.support.servers import Addresses


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, addresses: Addresses) -> Iterator[Installation]:
    with start_installation(tmp_path_factory.mktemp("installation"), addresses) as one:
        one.ok("seed")
        yield one


@pytest.fixture
def database(installation: Installation) -> Iterator[Database]:
    """The installation's database with an empty inbox, because a replay takes all matching events."""
    query(installation.database_url, "TRUNCATE webhook_inbox CASCADE")
    one = Database(installation.database_url, pool_size=1, application_name="tests")
    yield one
    one.close()


def fails(done: subprocess.CompletedProcess[str], *said: str, status: int = 1) -> None:
    assert done.returncode == status, done.stderr
    assert done.stdout == "" or status == 1
    assert "Traceback" not in done.stderr
    for words in said:
        assert words in done.stderr


def on_a_terminal(installation: Installation, *arguments: str) -> tuple[int, str]:
    """Run ``marketplace`` on a pseudo-terminal and return the exit status and all output."""
    output_fd, terminal_fd = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "commands.main", *arguments],
        cwd=PROJECT,
        env={**os.environ, "DATA_DIR": "/nonexistent", "COLUMNS": "300", **installation.environment},
        stdin=terminal_fd,
        stdout=terminal_fd,
        stderr=terminal_fd,
    )
    os.close(terminal_fd)
    shown = b""
    # Linux reports the end of a pseudo-terminal's output as an error.
    with contextlib.suppress(OSError), os.fdopen(output_fd, "rb", buffering=0) as terminal:
        while part := terminal.read(4096):
            shown += part
    return process.wait(60), shown.decode()


# --- Command line


@pytest.mark.parametrize("arguments", [["--help"], ["token", "--help"], ["config", "--help"]])
def test_frequent_commands_import_few_modules(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom commands.main import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        "sys.exit(', '.join({'sqlalchemy', 'boto3', 'alembic', 'flask', 'huey'} & sys.modules.keys()) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


def test_misspelled_command_gets_a_suggestion(installation: Installation) -> None:
    fails(installation.run("tokn"), "Did you mean token?", status=2)
    fails(installation.run("frobnicate"), "Use one of: db, seed", status=2)


def test_missing_settings_are_explained(tmp_path: Path) -> None:
    done = marketplace("ledger", "verify", environment={"DATA_DIR": str(tmp_path)})
    fails(done, "DATABASE_URL is not set", "make run", str(tmp_path / "stack.env"))


def test_default_data_directory_belongs_to_the_embedded_stack() -> None:
    assert read_layout({}).root == DEFAULT_DATA_DIRECTORY


def test_invalid_settings_are_named(installation: Installation) -> None:
    done = installation.run("config", "show", LOG_LEVEL="LOUD", CURSOR_KEY="short")
    fails(done, "LOG_LEVEL must be one of")


def test_settings_of_the_embedded_stack_are_found(installation: Installation, tmp_path: Path) -> None:
    lines = (f"{name}={value}\n" for name, value in installation.environment.items())
    (tmp_path / "stack.env").write_text("".join(lines), encoding="utf-8")
    done = marketplace("config", "get", "GATEWAY_URL", environment={"DATA_DIR": str(tmp_path)})
    assert done.stdout.strip() == installation.providers.gateway_url
    given = {"DATA_DIR": str(tmp_path), "GATEWAY_URL": "https://gateway.example.com"}
    done = marketplace("config", "get", "GATEWAY_URL", environment=given)
    assert done.stdout.strip() == "https://gateway.example.com"


def test_unavailable_database_is_reported_without_traceback(installation: Installation) -> None:
    away = "postgresql://marketplace@127.0.0.1:1/marketplace"
    for command in (["ledger", "verify"], ["db", "check"], ["db", "upgrade"], ["seed"], ["webhooks", "list"]):
        fails(installation.run(*command, DATABASE_URL=away), "can't be reached")


# --- config


def test_config_masks_secrets(installation: Installation) -> None:
    shown = dict(
        line.split("\t")[:2] for line in installation.ok("config", "show").splitlines() if "\t" in line
    )
    assert shown["GATEWAY_URL"] == installation.providers.gateway_url
    assert shown["GATEWAY_SECRET_KEY"] == shown["DATABASE_URL"] == shown["CURSOR_KEY"] == "********"
    assert shown["SENTRY_DSN"] == ""
    for name, value in installation.environment.items():
        if name.endswith(("_KEY", "_SECRET_ACCESS_KEY")):
            assert value not in shown.values()


def test_config_get_shows_secrets_of_the_embedded_stack_only(installation: Installation) -> None:
    assert installation.ok("config", "get", "GATEWAY_SECRET_KEY") == f"{GATEWAY_KEY}\n"
    assert installation.ok("config", "get", "identity_algorithms") == "ES256\n"
    fails(installation.run("config", "get", "GATEWAY_SECRET_KEY", ENVIRONMENT="test"), "is a secret")
    assert installation.ok("config", "get", "GATEWAY_NAME", ENVIRONMENT="test") == "gateway\n"
    fails(installation.run("config", "get", "GATEWAY_SECRET"), "Did you mean GATEWAY_SECRET_KEY", status=2)


# --- token


def claims_of(installation: Installation, *arguments: str) -> dict[str, Any]:
    output = installation.ok("token", *arguments)
    assert output.count("\n") == 1
    claims: dict[str, Any] = jwt.decode(output.strip(), options={"verify_signature": False})
    return claims


def test_token_prints_token_of_a_persona(installation: Installation) -> None:
    claims = claims_of(installation, "vendor2")
    assert claims["sub"] == str(persona_named("vendor2").user_id)
    assert claims["aal"] == "aal1"
    assert claims_of(installation, "finance", "--aal2")["aal"] == "aal2"
    assert claims_of(installation, "buyer", "--expired")["exp"] < claims["iat"]
    changed = claims_of(installation, "buyer", "--claims", '{"email": null, "aud": "elsewhere"}')
    assert "email" not in changed
    assert changed["aud"] == "elsewhere"


def test_token_refuses_invalid_arguments_and_issuers(installation: Installation) -> None:
    fails(installation.run("token", "bob"), *persona_names(), status=2)
    fails(installation.run("token", "buyer", "--claims", "[1]"), "must be an object", status=2)
    fails(installation.run("token", "buyer", "--claims", "{"), "not JSON", status=2)
    fails(installation.run("token", "buyer", IDENTITY_ISSUER="http://127.0.0.1:1/identity"), "make run")
    elsewhere = installation.providers.url
    fails(
        installation.run("token", "buyer", IDENTITY_ISSUER=elsewhere), "is not the embedded identity provider"
    )
    fails(installation.run("token", "buyer", IDENTITY_ISSUER=""), "IDENTITY_ISSUER is not set")


# --- db


def test_db_upgrade_through_a_pooler_is_refused(installation: Installation) -> None:
    fails(installation.run("db", "upgrade", DATABASE_PREPARED_STATEMENTS="off"), "needs a direct connection")


@contextmanager
def serving_metrics(installation: Installation, **changes: str) -> Iterator[int]:
    """Run ``metrics serve`` and yield the port. The command ends with status 0."""
    port = free_port("server")
    command = [sys.executable, "-m", "commands.main", "metrics", "serve", "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=PROJECT, env=installation.environment | changes, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert f"http://127.0.0.1:{port}/metrics" in process.stdout.readline()
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def scrape(port: int) -> list[str]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return answer.read().decode().splitlines()


def test_metrics_are_served_until_a_signal(installation: Installation) -> None:
    with serving_metrics(installation) as port:
        lines = scrape(port)
        assert 'marketplace_up{server="database"} 1.0' in lines
        assert any(line.startswith('marketplace_queue_oldest_seconds{queue="webhooks"}') for line in lines)
        taken = installation.run("metrics", "serve", "--port", str(port))
        fails(taken, f"Cannot listen on 127.0.0.1:{port}", "Change --host or --port.")


def test_metrics_are_served_while_the_database_is_silent(installation: Installation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none"
        with serving_metrics(installation, DATABASE_URL=url) as port:
            lines = scrape(port)
    assert 'marketplace_up{server="database"} 0.0' in lines
    assert 'marketplace_up{server="cache"} 1.0' in lines


def test_db_upgrade_can_be_repeated_and_run_concurrently(installation: Installation) -> None:
    url = installation.create_database("fresh")
    command = [sys.executable, "-m", "commands.main", "db", "upgrade"]
    environment = {**installation.environment, "DATABASE_URL": url}
    processes = [
        subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted("applied" in output for output in outputs) == [False, True]
    assert "already" in installation.ok("db", "upgrade", DATABASE_URL=url)
    lines = dict(line.split("\t") for line in installation.ok("db", "current", DATABASE_URL=url).splitlines())
    assert lines["database"] == lines["latest"]


def test_db_check_lists_differences(installation: Installation) -> None:
    assert "agrees with the models" in installation.ok("db", "check")
    url = installation.create_database("drifted")
    fails(installation.run("db", "check", DATABASE_URL=url), "no revision", "marketplace db upgrade")
    installation.ok("db", "upgrade", DATABASE_URL=url)
    query(
        url,
        "ALTER TABLE hubs ADD COLUMN extra int; DROP INDEX ix_orders_buyer; ALTER TABLE orders ALTER number"
        " SET DEFAULT 'X-' || nextval('order_number')::text",
    )
    done = installation.run("db", "check", DATABASE_URL=url)
    fails(done, "differs from the models")
    assert "remove column: hubs extra" in done.stdout
    assert "add index: ix_orders_buyer" in done.stdout
    assert "modify default of orders.number: the database has ('X-'" in done.stdout
    query(url, "UPDATE alembic_version SET version_num = '9999'")
    fails(installation.run("db", "upgrade", DATABASE_URL=url), "does not know")


def test_database_from_before_the_baseline_is_refused(installation: Installation) -> None:
    url = installation.create_database("before_baseline")
    query(url, "CREATE TABLE alembic_version (version_num text); INSERT INTO alembic_version VALUES ('0029')")
    for command in ("upgrade", "check"):
        done = installation.run("db", command, DATABASE_URL=url)
        fails(done, "revision 0029", "make reset")
        assert len(done.stderr.strip().splitlines()) == 1
        assert "Traceback" not in done.stderr


# --- alerts


def raised(database: Database, **values: Any) -> tuple[str, str]:
    """Raise an alert and return the alert's id and subject."""
    subject = f"refund:{uuid4()}"
    given = {"identifier": "REFUND_CAME_BACK", "title": "A refund failed", "facts": {"amountMinor": 7}}
    alert_id = database.in_transaction(raise_alert, subject=subject, now=system_clock(), **given | values)
    return str(alert_id), subject


def test_alerts_are_listed_shown_and_resolved(installation: Installation, database: Database) -> None:
    alert_id, subject = raised(database)
    other, _ = raised(database, identifier="REFUND_STUCK")

    head, *lines = installation.ok("alerts", "list", "--severity", "SEV-1").splitlines()
    assert head.split("\t")[:4] == ["ID", "Severity", "Identifier", "About"]
    [line] = [line for line in lines if line.startswith(alert_id)]
    assert line.split("\t")[1:5] == ["SEV-1", "REFUND_CAME_BACK", subject, "1"]
    assert other not in "".join(lines)
    assert other in installation.ok("alerts", "list", "--identifier", "REFUND_STUCK")

    shown = installation.ok("alerts", "show", alert_id)
    kind = kinds.ALERT_KINDS["REFUND_CAME_BACK"]
    for part in (
        f"subject\t{subject}",
        'facts\t{"amountMinor":7}',
        kind.meaning,
        kind.first_step,
        "No message has been sent",
    ):
        assert part in shown

    done = installation.ok("alerts", "resolve", alert_id, "--note", "  The money   is back. ")
    assert done == f"Resolved {alert_id}.\n"
    assert alert_id not in installation.ok("alerts", "list")
    assert alert_id in installation.ok("alerts", "list", "--state", "resolved")
    shown = installation.ok("alerts", "show", alert_id)
    assert "resolution\toperator" in shown
    assert "note\tThe money is back." in shown
    sql = "SELECT actor, action FROM audit_logs WHERE target_id = %s"
    [(actor, action)] = query(installation.database_url, sql, alert_id)
    assert actor.startswith("operator ")
    assert action == "alert.resolve"


def test_alert_shows_notified_recipients_and_failed_channels(
    installation: Installation, database: Database
) -> None:
    alert_id, _ = raised(database)
    others = {"ALERT_EMAIL_TO": "a@ops.test, b@ops.test", "SMTP_URL": "smtp://u:secret@127.0.0.1:1"}
    url = installation.database_url
    assert "chat: raised, not sent yet\n" in installation.ok("alerts", "show", alert_id)

    query(
        url,
        "INSERT INTO alert_messages (alert_id, channel, event, sending_until, sent_at)"
        " VALUES (%s, %s, 'raised', now(), '2026-03-01T10:00:00Z')",
        alert_id,
        email_channel_name("a@ops.test"),
    )
    query(
        url,
        "UPDATE outbox_events SET attempts = 3, last_error = 'ProviderRefusedError', due_at = '2026-03-01T11:00:00Z',"
        " failed_at = CASE WHEN payload ->> 'channel' = 'chat' THEN timestamptz '2026-03-01T12:00:00Z' END"
        " WHERE payload ->> 'alertId' = %s",
        alert_id,
    )
    shown = installation.ok("alerts", "show", alert_id, **others)

    assert "email to a@ops.test: raised, sent at 2026-03-01 10:00:00Z\n" in shown
    assert (
        "email: raised, not sent to all recipients yet: 3 attempts, last error ProviderRefusedError,"
        " next attempt at 2026-03-01 11:00:00Z\n" in shown
    )
    assert (
        "chat: raised, gave up at 2026-03-01 12:00:00Z after 3 attempts, last error ProviderRefusedError\n"
        in shown
    )
    assert "secret" not in shown
    assert "No message has been sent" not in shown


def test_invalid_resolutions_of_alerts_are_refused(installation: Installation, database: Database) -> None:
    alert_id, _ = raised(database)
    for note in ("", "ok", "x" * 501):
        fails(installation.run("alerts", "resolve", alert_id, "--note", note), "3 to 500", status=2)
    fails(installation.run("alerts", "resolve", alert_id), "--note", status=2)
    installation.ok("alerts", "resolve", alert_id, "--note", "Seen to.")

    fails(installation.run("alerts", "resolve", alert_id, "--note", "Seen to."), "already resolved")
    unknown_id = str(uuid4())
    fails(installation.run("alerts", "resolve", unknown_id, "--note", "Seen to."), "alerts list --state all")
    fails(installation.run("alerts", "show", unknown_id), "alerts list --state all")
    for command in (["show"], ["resolve", "--note", "Seen to."]):
        fails(installation.run("alerts", command[0], str(uuid4()), *command[1:]), "There is no alert ")
    none = installation.run("alerts", "list", "--identifier", "GATEWAY_UNREACHABLE")
    assert (none.stdout, none.stderr) == ("", "No alert matches.\n")


# --- ledger, audit


def test_ledger_verify_names_the_inconsistent_rows(installation: Installation) -> None:
    assert installation.ok("ledger", "verify").endswith("The ledger is consistent.\n")
    url = installation.create_migrated_database("cooked")
    transaction = str(uuid4())
    query(
        url,
        "ALTER TABLE ledger_entries DISABLE TRIGGER USER; ALTER TABLE ledger_transactions DISABLE TRIGGER USER;"
        "INSERT INTO ledger_transactions (id, kind, source, description) VALUES (%s, 'test', '1', 'Cooked');"
        "INSERT INTO ledger_entries (transaction_id, kind, account_id, direction, amount_minor)"
        " SELECT %s, 'test', id, 'debit', 777 FROM ledger_accounts WHERE kind = 'bank'",
        transaction,
        transaction,
    )
    done = installation.run("ledger", "verify", DATABASE_URL=url)
    fails(done, "The ledger is inconsistent (broken invariants: ")
    assert transaction in done.stdout
    assert "777" in done.stdout
    raised_of = query(url, "SELECT severity, subject FROM alerts WHERE identifier = 'ESCROW_DRIFT'")
    assert ("SEV-1", "total debits equal total credits") in raised_of


def test_audit_verify_finds_a_changed_row(installation: Installation) -> None:
    # Another test anchors another trail in the same storage.
    assert "The audit trail is intact: " in installation.ok("audit", "verify", "--without-anchors")
    url = installation.create_migrated_database("forged")
    query(
        url,
        "INSERT INTO audit_logs (at, actor, action, target_type, target_id, previous_hash, hash)"
        " VALUES (now(), 'x', 'x', 'x', 'x', 'x', 'x')",
    )
    fails(installation.run("audit", "verify", DATABASE_URL=url), "broken at row 1 ")


def test_audit_verify_compares_the_anchors_and_the_archives(
    installation: Installation, tmp_path: Path
) -> None:
    url = installation.create_migrated_database("anchored")
    use_keyring(make_keyring(DATA_ENCRYPTION_KEYS, BLIND_INDEX_KEY))
    storage = S3ObjectStorage(load_settings(installation.environment))
    october, november = datetime(2026, 10, 5, tzinfo=UTC), datetime(2026, 11, 5, tzinfo=UTC)
    database = Database(url, pool_size=1, application_name="tests")
    database.in_transaction(
        record_audit_entry, act=Act("operator", october), action="x.y", target_type="x", target_id="1"
    )
    assert anchors.write_anchor(database, storage, bucket="marketplace-private", now=november)
    assert archives.archive_months(database, storage, bucket="marketplace-private", now=november) == 1
    database.close()

    assert "1 rows" in installation.ok("audit", "verify", DATABASE_URL=url)
    assert "1 anchors agree" in installation.ok("audit", "verify", DATABASE_URL=url)
    query(url, "ALTER TABLE audit_logs DISABLE TRIGGER ALL; DELETE FROM audit_logs")
    fails(installation.run("audit", "verify", DATABASE_URL=url), "was cut off or written again")
    assert "0 rows" in installation.ok("audit", "verify", "--without-anchors", DATABASE_URL=url)
    unreachable = installation.run("audit", "verify", DATABASE_URL=url, S3_ENDPOINT_URL="http://127.0.0.1:9")
    fails(unreachable, "--without-anchors")

    key = tmp_path / "key.pem"
    key.write_text(installation.ok("privacy", "signing-key"))
    folder = tmp_path / "archive"
    folder.mkdir()
    fails(installation.run("audit", "verify", "--archive", str(folder), "--key", str(key)), "no archives")
    for name in ("2026-10.json", "2026-10.jsonl.gz"):
        with (folder / name).open("wb") as file:
            storage.download(
                bucket="marketplace-private", key=f"audit-archive/{name}", into=file, max_bytes=10**6
            )
    verified = installation.ok("audit", "verify", "--archive", str(folder), "--key", str(key))
    assert verified == "The archives are intact: 1 months, 1 rows.\n"
    (folder / "2026-10.jsonl.gz").write_bytes(b"changed")
    fails(installation.run("audit", "verify", "--archive", str(folder), "--key", str(key)), "was changed")
    assert "--key" in installation.run("audit", "verify", "--archive", str(folder)).stderr


def test_keys_rotate_frees_the_old_key(installation: Installation) -> None:
    url = installation.create_migrated_database("keys")
    person = str(uuid4())
    query(url, "INSERT INTO profiles (id) VALUES (%s)", person)
    use_keyring(make_keyring(DATA_ENCRYPTION_KEYS, BLIND_INDEX_KEY))
    device = EncryptedText("user_devices.token").encrypt("a-token-of-a-device")
    query(
        url,
        "INSERT INTO user_devices (user_id, kind, token, token_index, created_at, last_seen_at)"
        " VALUES (%s, 'fcm', %s, 'x', now(), now())",
        person,
        device,
    )
    new = f"new:{base64.b64encode(bytes(32)).decode()}"
    changes = {"DATABASE_URL": url, "DATA_ENCRYPTION_KEYS": f"{new},{DATA_ENCRYPTION_KEYS}"}
    assert "user_devices.token" in installation.ok("keys", "status", **changes)
    fails(installation.run("keys", "rotate", DATABASE_URL=url, DATA_ENCRYPTION_KEYS=new), "missing")
    assert "user_devices.token: 1 (" in installation.ok("keys", "rotate", **changes)
    [(stored,)] = query(url, "SELECT token FROM user_devices")
    assert stored.startswith("v1:new:")
    assert "user_devices.token: 0 (" in installation.ok(
        "keys", "rotate", DATABASE_URL=url, DATA_ENCRYPTION_KEYS=new
    )


# --- privacy


def test_privacy_reapply_erases_a_person_of_a_restored_backup(
    installation: Installation, tmp_path: Path
) -> None:
    url = installation.create_migrated_database("restored")
    person = str(uuid4())
    query(url, "INSERT INTO profiles (id, name) VALUES (%s, 'Zubaida')", person)
    use_keyring(make_keyring(DATA_ENCRYPTION_KEYS, BLIND_INDEX_KEY))
    receipt = sign_document(
        {"kind": "erasure", "userId": person, "tables": [], "finishedAt": "2035-03-05T10:00:00+00:00"}
    )
    storage = S3ObjectStorage(load_settings(installation.environment))
    storage.put(
        bucket="marketplace-private",
        key="erasures/of-a-test.json",
        content=json.dumps(receipt).encode(),
        content_type="application/json",
    )

    assert "1 receipts, 1 erasures started." in installation.ok("privacy", "reapply", DATABASE_URL=url)
    assert "1 receipts, 0 erasures started." in installation.ok("privacy", "reapply", DATABASE_URL=url)
    assert query(url, "SELECT name, erased_at IS NULL FROM profiles WHERE id = %s", person) == [(None, False)]
    unreachable = installation.run(
        "privacy", "reapply", DATABASE_URL=url, S3_ENDPOINT_URL="http://127.0.0.1:9"
    )
    fails(unreachable, "S3_ENDPOINT_URL")

    file, key = tmp_path / "receipt.json", tmp_path / "key.pem"
    key.write_text(installation.ok("privacy", "signing-key"))
    file.write_text(json.dumps(receipt))
    assert "The receipt is valid" in installation.ok(
        "privacy", "verify-receipt", str(file), "--key", str(key)
    )
    file.write_text(json.dumps(receipt | {"userId": str(uuid4())}))
    fails(installation.run("privacy", "verify-receipt", str(file), "--key", str(key)), "signature is wrong")
    file.write_text("no JSON")
    fails(installation.run("privacy", "verify-receipt", str(file), "--key", str(key)), "cannot be read")


# --- webhooks


def receive(database: Database, body: bytes) -> UUID:
    with database.transaction() as session:
        return webhooks.receive_event(session, provider="gateway", body=body, now=system_clock())


def kill(installation: Installation, inbox_id: UUID) -> None:
    """Put an event into the state that five failed retries leave."""
    query(
        installation.database_url,
        "WITH dead AS (UPDATE webhook_inbox SET status = 'dead', attempts = 6, last_error = 'it failed',"
        " finished_at = now(), event_type = 'charge.success' WHERE id = %s RETURNING *)"
        " INSERT INTO dead_letter_webhooks (inbox_id, provider, event_type, body, attempts, error, died_at)"
        " SELECT id, provider, event_type, body, attempts, last_error, now() FROM dead",
        str(inbox_id),
    )


def charge_for(installation: Installation, order_number: str) -> bytes:
    """Insert a payment intent for an unpaid order and return the event of a successful charge."""
    [(reference, total)] = query(
        installation.database_url,
        "WITH o AS (SELECT * FROM orders WHERE number = %s), i AS (INSERT INTO payment_intents"
        " (buyer_id, amount_minor, status) SELECT buyer_id, total_minor, 'pending' FROM o RETURNING *),"
        " a AS (INSERT INTO payment_allocations (intent_id, order_id, amount_minor)"
        " SELECT i.id, o.id, o.total_minor FROM i, o)"
        " SELECT i.reference, o.total_minor FROM i, o",
        order_number,
    )
    data = {
        "id": uuid4().int % 10**9,
        "reference": reference,
        "status": "success",
        "amount": total,
        "fees": 100,
        "currency": "NGN",
        "channel": "card",
        "authorization": {"authorization_code": "AUTH_secret"},
    }
    return json.dumps({"event": "charge.success", "data": data}).encode()


def test_webhooks_are_replayed_once_after_a_dry_run(installation: Installation, database: Database) -> None:
    with database.transaction() as session:
        shop = make_shop(session)
        order_id = place(session, shop, make_product(session, shop), now=system_clock())
        number = row_of(session, "orders", id=order_id)["number"]
    inbox_id = receive(database, charge_for(installation, number))
    kill(installation, inbox_id)
    status = "SELECT o.status, i.status FROM orders o, webhook_inbox i WHERE o.number = %s AND i.id = %s"
    change = f"order {number}: status pending_payment -> paid_escrow"

    listed = installation.ok("webhooks", "list", "--state", "dead", "--error-like", "IT FAILED")
    assert str(inbox_id) in listed
    rehearsed = installation.ok(
        "webhooks", "replay", "--type", "charge.success", "--since", "1h", "--dry-run"
    )
    assert change in rehearsed
    assert f"(order {number})" in rehearsed
    assert "credit escrow" in rehearsed
    assert query(installation.database_url, status, number, str(inbox_id)) == [("pending_payment", "dead")]

    assert change in installation.ok("webhooks", "replay", "--id", str(inbox_id))
    assert query(installation.database_url, status, number, str(inbox_id)) == [("paid_escrow", "processed")]
    assert "nothing: already processed" in installation.ok("webhooks", "replay", "--id", str(inbox_id))
    assert "ledger is consistent" in installation.ok("ledger", "verify")
    audited = (
        "SELECT actor, after ->> 'outcome' FROM audit_logs WHERE action = 'webhook.replay' AND target_id = %s"
        " ORDER BY id"
    )
    acts = query(installation.database_url, audited, str(inbox_id))
    assert [outcome for _, outcome in acts] == ["processed", "unchanged"]
    assert all(actor.startswith("operator") for actor, _ in acts)


def test_failed_replay_is_reported(installation: Installation, database: Database) -> None:
    inbox_id = receive(database, b'{"event": "charge.success", "data": {"reference": "none of ours"}}')
    kill(installation, inbox_id)
    for more in (["--dry-run"], []):
        done = installation.run("webhooks", "replay", "--id", str(inbox_id), *more)
        fails(done, "again")
        assert "data.status is not a string" in done.stdout


def test_reference_shows_and_replays_all_its_webhooks_in_order_of_arrival(
    installation: Installation, database: Database
) -> None:
    reference = f"checkout-{uuid4().hex}"
    kinds = ("greeted.first", "greeted.second", "greeted.third")
    made = []
    for number, kind in enumerate(kinds):
        body = json.dumps({"event": kind, "data": {"id": number, "reference": reference}}).encode()
        made.append(str(receive(database, body)))
        kill(installation, UUID(made[-1]))
        query(
            installation.database_url,
            "UPDATE webhook_inbox SET event_type = %s, dedupe_id = %s, reference = %s, last_error = %s WHERE id = %s",
            *(kind, f"{kind}:{number}", reference, f"cause {number % 2}", made[-1]),
        )

    shown = installation.ok("webhooks", "show", reference).splitlines()
    assert [line.split("\t")[0] for line in shown] == ["ID", *made]
    assert [row["id"] for row in json.loads(installation.ok("webhooks", "show", reference, "--json"))] == made
    fails(installation.run("webhooks", "show", reference, "--raw"), "3 webhooks match")
    one = json.loads(installation.ok("webhooks", "show", "greeted.second:1", "--json"))
    assert (one["id"], one["body"]["data"]["reference"]) == (made[1], reference)

    replayed = json.loads(installation.ok("webhooks", "replay", "--id", reference, "--json"))

    assert [(event["id"], event["outcome"]) for event in replayed["events"]] == [
        (inbox_id, "ignored") for inbox_id in made
    ]
    again = json.loads(installation.ok("webhooks", "replay", "--id", "greeted.third:2", "--json"))
    assert [(event["id"], event["outcome"]) for event in again["events"]] == [(made[2], "unchanged")]


def test_replay_summarizes_webhooks_by_cause(installation: Installation, database: Database) -> None:
    """With two causes, of which only the first is fixed, the table counts outcomes and lists failures."""
    good = [receive(database, b'{"event": "greeted", "data": {"id": %d}}' % number) for number in range(3)]
    bad = receive(database, b"neither JSON nor mended")
    for inbox_id in (*good, bad):
        kill(installation, inbox_id)
    query(
        installation.database_url,
        "UPDATE webhook_inbox SET last_error = 'it broke' WHERE id = %s",
        str(bad),
    )
    since = ["--since", "10m", "--error-like", "it "]

    rehearsed = json.loads(installation.ok("webhooks", "list", "--state", "dead", *since, "--json"))
    assert {row["id"] for row in rehearsed} >= {str(inbox_id) for inbox_id in (*good, bad)}
    some = installation.run("webhooks", "replay", *since, "--limit", "3", "--dry-run")
    assert "Left out: 1 webhook. Raise --limit" in some.stderr
    assert "two deliveries of the same charge both count" in some.stderr
    done = installation.run("webhooks", "replay", *since, "--rate", "200")

    fails(done, "1 of 4 webhooks failed again", "it failed: 3 (", "it broke: 1 (")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line for line in lines if line[0] in ("it failed", "it broke")] == [
        ["it failed", "3", "0", "3", "0", "0", "0"],
        ["it broke", "1", "0", "0", "0", "1", "0"],
    ]
    assert [line[3] for line in lines if line[0] == str(bad)] == ["the body is not JSON"]
    assert str(good[0]) not in done.stdout

    shown = json.loads(installation.ok("webhooks", "show", str(good[0]), "--json"))
    assert (shown["state"], shown["body"]["event"]) == ("ignored", "greeted")
    again = installation.run("webhooks", "replay", "--id", str(bad), "--dry-run", "--json")
    [event] = json.loads(again.stdout)["events"]
    assert (again.returncode, event["outcome"], event["before"]) == (1, "failed", "dead")


def test_permanent_failures_do_not_block_other_replays(
    installation: Installation, database: Database
) -> None:
    """Permanent failures fill the limit of a run. Repeating the same command continues with the rest."""
    event_type = f"kind.{uuid4()}"
    greeting = b'{"event": "greeted", "data": {"id": "%s"}}' % event_type.encode()
    for body in (b"hopeless", b"as hopeless", greeting):
        inbox_id = receive(database, body)
        kill(installation, inbox_id)
        named = "UPDATE webhook_inbox SET event_type = %s WHERE id = %s"
        query(installation.database_url, named, event_type, str(inbox_id))
    chosen = ["--type", event_type]

    causes = installation.ok("webhooks", "list", "--state", "dead", "--causes", *chosen)
    [headings, line] = [line.split("\t") for line in causes.splitlines()]
    assert (headings[0], headings[-1]) == ("Events", "Last error")
    assert (line[0], line[1], line[-1]) == ("3", event_type, "it failed")
    cut = installation.run("webhooks", "list", *chosen, "--limit", "2")
    assert (cut.returncode, len(cut.stdout.splitlines())) == (0, 3)
    assert "More rows match. Use --limit to show up to 1,000." in cut.stderr
    whole = installation.run("webhooks", "list", *chosen, "--limit", "3")
    assert (len(whole.stdout.splitlines()), whole.stderr) == (4, "")

    first = installation.run("webhooks", "replay", *chosen, "--limit", "2")
    fails(first, "Left out: 1 webhook. Repeat the command", "2 of 2 webhooks failed again (still dead)")
    second = installation.run("webhooks", "replay", *chosen, "--limit", "2")
    fails(second, "Left out: 1 webhook.", "1 of 2 webhooks failed again")
    assert "it failed\t1\t0\t1\t0\t0\t0\n" in second.stdout


def transfer(installation: Installation, database: Database) -> UUID:
    """Return a dead event that raises an alert when replayed."""
    body = orjson.dumps({"event": "transfer.success", "data": transfer_data("success")})
    inbox_id = receive(database, body)
    kill(installation, inbox_id)
    return inbox_id


def test_replay_logs_json_to_a_pipe_but_not_to_a_terminal(
    installation: Installation, database: Database
) -> None:
    piped = installation.run("webhooks", "replay", "--id", str(transfer(installation, database)))
    lines = [json.loads(line) for line in piped.stderr.splitlines() if line.startswith("{")]
    assert [(line["message"], line["level"]) for line in lines] == [("alert raised", "error")]
    assert lines[0]["identifier"] == "TRANSFER_UNKNOWN"

    status, shown = on_a_terminal(
        installation, "webhooks", "replay", "--id", str(transfer(installation, database))
    )

    assert status == 0
    # The completed progress bar of events with the same error.
    assert re.search(r"it failed .*━.*1/1", shown)
    assert "alert raised: SEV-2 TRANSFER_UNKNOWN" in shown
    assert '"message"' not in shown
    assert "occurrences" not in shown


def test_replay_skips_webhook_leased_by_a_worker(installation: Installation, database: Database) -> None:
    free, held = (transfer(installation, database) for _ in range(2))
    chosen = ["--id", str(free), "--id", str(held)]
    with database.transaction() as session:
        session.execute(text("SELECT 1 FROM webhook_inbox WHERE id = :id FOR UPDATE"), {"id": held})
        done = installation.run("webhooks", "replay", *chosen)

    assert done.returncode == 0, done.stderr
    assert "1 of 2 webhooks were skipped" in done.stderr
    assert "failed again" not in done.stderr
    assert "it failed\t2\t1\t0\t0\t0\t1\n" in done.stdout
    assert json.loads(installation.ok("webhooks", "show", str(held), "--json"))["state"] == "dead"


def test_lost_database_connection_during_replay_is_explained(
    installation: Installation, database: Database
) -> None:
    """A trigger on the last event ends the connection."""
    first, last = (transfer(installation, database) for _ in range(2))
    bad = receive(database, b"neither JSON nor mended")
    kill(installation, bad)
    chosen = [word for inbox_id in (first, bad, last) for word in ("--id", str(inbox_id))]
    query(
        installation.database_url,
        "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        "  PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;"
        f" CREATE TRIGGER cut BEFORE UPDATE ON webhook_inbox FOR EACH ROW WHEN (OLD.id = '{last}')"
        " EXECUTE FUNCTION cut()",
    )
    try:
        done = installation.run("webhooks", "replay", *chosen, "--rate", "1000")
    finally:
        query(installation.database_url, "DROP FUNCTION cut() CASCADE")

    fails(
        done,
        "The database connection was lost after 2 of 3 webhooks: 1 processed, 1 failed (still dead)."
        " Run the same command",
    )
    assert "it failed: 2 of 3, aborted (" in done.stderr
    logged = [json.loads(line)["message"] for line in done.stderr.splitlines() if line.startswith("{")]
    assert logged == ["alert raised"]


def test_webhooks_show_redacts_secrets(installation: Installation, database: Database) -> None:
    inbox_id = receive(
        database,
        b'{"event": "x", "data": {"id": 1, "authorization": {"authorization_code": "AUTH_secret"}}}',
    )
    shown = installation.ok("webhooks", "show", str(inbox_id))
    assert "waiting" in shown
    assert "AUTH_secret" not in shown
    assert "AUTH_secret" in installation.ok("webhooks", "show", str(inbox_id), "--raw")
    fails(installation.run("webhooks", "show", str(uuid4())), "There is no webhook ")


def test_replay_and_list_refuse_invalid_selections(installation: Installation) -> None:
    fails(installation.run("webhooks", "replay"), "--id", status=2)
    fails(installation.run("webhooks", "replay", "--all", "--id", str(uuid4())), "--id", status=2)
    fails(installation.run("webhooks", "list", "--since", "yesterday"), "90m", status=2)
    for rate in ("0", "nan"):
        fails(installation.run("webhooks", "replay", "--all", "--rate", rate), "--rate", status=2)
    fails(installation.run("webhooks", "list", "--since", "999999d"), "out of range", status=2)
    fails(installation.run("webhooks", "list", "--state", "lost"), "dead", status=2)
    unknown = str(uuid4())
    fails(installation.run("webhooks", "replay", "--id", unknown), unknown, "marketplace webhooks list")


# --- periodic


def test_periodic_tasks_are_listed_and_run_as_of_a_given_time(installation: Installation) -> None:
    assert re.search(r"^expire-checkouts\t", installation.ok("periodic", "list"), re.MULTILINE)
    unpaid = "SELECT count(*) FROM orders WHERE status = 'pending_payment'"
    [(before,)] = query(installation.database_url, unpaid)
    assert before > 0
    assert "expired 0" in installation.ok("periodic", "run", "expire-checkouts")
    assert f"expired {before}" in installation.ok("periodic", "run", "expire-checkouts", "--now", "+40m")
    assert query(installation.database_url, unpaid) == [(0,)]
    assert "ledger is consistent" in installation.ok("ledger", "verify")


def test_periodic_run_refuses_invalid_arguments(installation: Installation) -> None:
    fails(installation.run("periodic", "run", "nothing"), "expire-checkouts", status=2)
    fails(installation.run("periodic", "run", "relay-inbox", "--now", "soon"), "+31m", status=2)
    for moment in ("0001-01-02", "1999-12-31T23:59:59Z", "3000-01-01", "+999999d"):
        done = installation.run("periodic", "run", "purge-inbox", "--now", moment)
        fails(done, "use a year from 2000 to 2999", status=2)
    production = {
        "ENVIRONMENT": "production",
        "PUBLIC_BASE_URL": "https://api.example.com",
        "MESSAGING_APP_SECRET": "of-these-tests-only-0123456789abcdef",
    }
    done = installation.run("periodic", "run", "relay-inbox", "--now", "+1d", **production)
    fails(done, "ENVIRONMENT is production")


# --- proxy


def test_caddyfile_matches_the_route_contracts() -> None:
    written = (PROJECT / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    assert written == render_caddyfile(contracts()), "run `marketplace proxy caddyfile > deploy/Caddyfile`"


def test_caddyfile_sends_each_route_to_the_declared_process_group() -> None:
    shown = render_caddyfile(contracts())
    blocks = re.findall(r"method ([A-Z ]+)\n\t\tpath_regexp (\S+)\n", shown)
    for contract in contracts():
        example = re.sub(r"<[^>]+>", "01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10", contract.path)
        spellings = [example, example.replace("/api/", "/api/v1/", 1), f"{example}/"]
        for path in spellings:
            sent = any(
                contract.method in methods.split() and re.search(pattern, path) for methods, pattern in blocks
            )
            assert sent == (contract.group is ProcessGroup.WAITING), (contract.method, path)
    assert any(contract.group is ProcessGroup.WAITING for contract in contracts())


# --- payouts


def test_payout_batches_are_listed_and_shown(installation: Installation, database: Database) -> None:
    with database.transaction() as session:
        payees = make_payees(session, 3)
        approved, staged = approved_batch(session, payees[:1]), staged_batch(session, payees[1:])
        number = row_of(session, "payout_accounts", id=payees[0].account_id)["account_number"]

    head, *lines = installation.ok("payouts", "list").splitlines()
    assert head.split("\t")[:4] == ["ID", "Status", "Payments", "Kobo"]
    made = [line.split("\t")[:4] for line in lines if line.startswith((str(staged), str(approved)))]
    assert made == [
        [str(staged), "staged", "2", str(2 * OWED_MINOR)],
        [str(approved), "approved", "1", str(OWED_MINOR)],
    ]
    assert str(approved) not in installation.ok("payouts", "list", "--status", "staged")

    shown = installation.ok("payouts", "show", str(approved))
    assert "status\tapproved" in shown
    assert shown.count("Approved by ") == 2
    assert "first_payout: 1 payment, " in shown
    assert f"058 ******{number[-4:]}" in shown
    assert number not in shown
    shown = installation.ok("payouts", "show", str(staged), "--limit", "1")
    assert [str(payee.store_id) in shown for payee in payees] == [False, False, False]
    assert "approvalsMissing\t2" in shown
    fails(installation.run("payouts", "show", str(uuid4())), "Payout batch not found.")
    fails(installation.run("payouts", "show", "none"), "'none' is not a valid UUID", status=2)
