"""Command ``marketplace payouts reconcile`` on the seeded orders: output and exit status."""

from collections.abc import Iterator

import pytest
import requests

from tests.support.installation import GATEWAY_KEY, Installation, query, start_installation
from tests.support.servers import Addresses


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, addresses: Addresses) -> Iterator[Installation]:
    with start_installation(tmp_path_factory.mktemp("installation"), addresses) as one:
        one.ok("seed")
        yield one


def facts_of(shown: str) -> dict[str, str]:
    return dict(line.split("\t")[:2] for line in shown.splitlines() if "\t" in line)


def at_gateway(installation: Installation, path: str, **body: object) -> None:
    answer = requests.post(
        f"{installation.providers.gateway_url}{path}",
        json=body,
        headers={"Authorization": f"Bearer {GATEWAY_KEY}"},
        timeout=10,
    )
    assert answer.status_code == 200, answer.text


def test_seed_matches_gateway_until_refund_outside_the_service(installation: Installation) -> None:
    shown = facts_of(installation.ok("payouts", "reconcile"))
    assert (shown["Status"], shown["Drift"]) == ("matched", "NGN 0.00")
    assert shown["Gateway balance"] == shown["Ledger balance"] != "NGN 0.00"
    [(reference,)] = query(
        installation.database_url,
        "SELECT i.reference FROM gateway_charges c JOIN payment_intents i ON i.id = c.intent_id"
        " WHERE c.refunded_minor = 0 ORDER BY c.id LIMIT 1",
    )
    at_gateway(installation, "/refund", transaction=reference, amount=5_000)

    done = installation.run("payouts", "reconcile")

    assert done.returncode == 1
    assert facts_of(done.stdout)["Drift"] == "-NGN 50.00"
    assert "refund\tmissing_here\t-5000\t" in done.stdout
    assert "Payouts are halted" in done.stderr
    assert "ESCROW_DRIFT" in installation.ok("alerts", "list")


def test_unavailable_gateway_ends_with_status_2(installation: Installation) -> None:
    done = installation.run("payouts", "reconcile", GATEWAY_URL="http://127.0.0.1:1/gateway")

    assert done.returncode == 2
    assert "did not answer correctly" in done.stderr
    assert "Traceback" not in done.stderr


def test_invalid_time_window_is_refused(installation: Installation) -> None:
    done = installation.run("payouts", "reconcile", "--from", "2026-03-02", "--to", "2026-03-01")

    assert done.returncode == 1
    assert "Must be before `to`." in done.stderr
