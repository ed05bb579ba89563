"""Alerts: raising, counting of repeats, resolving and raising again."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session
from structlog.testing import capture_logs

from marketplace.alerts import kinds, queries
from marketplace.alerts.operations import (
    AlertAlreadyResolvedError,
    raise_alert,
    resolve_alert,
    resolve_alerts_except,
    resolve_manually,
)
from marketplace.audit.operations import Act
from marketplace.identity.permissions import MANAGE_FINANCES, MANAGE_PLATFORM
from marketplace.infra import wakeups
from marketplace.infra.db import Database
from marketplace.kernel.errors import ForbiddenError, NotFoundError
from marketplace.kernel.paging import PageRequest
from marketplace.kernel.redaction import MARKER
from tests.support.alerts import alerts_about, make_staff, messages_of, unique_subject
from tests.support.finance import act_of
from tests.support.purchases import NOW, later

TITLE = "A refund is raise_stuck"


@pytest.fixture(autouse=True)
def no_wakeups() -> Iterator[None]:
    """Disable the wake-ups of events that these tests enqueue."""
    before = list(wakeups._wakeup_senders)
    wakeups._wakeup_senders.clear()
    yield
    wakeups._wakeup_senders[:] = before


@pytest.fixture
def subject() -> str:
    return unique_subject()


def raise_stuck(session: Session, subject: str, **values: Any) -> UUID:
    given = {"identifier": "REFUND_STUCK", "title": TITLE, "facts": {"tries": 1}, "now": NOW} | values
    return raise_alert(session, subject=subject, **given)


class TestRaising:
    def test_alert_is_stored_with_severity_and_facts(self, session: Session, subject: str) -> None:
        alert_id = raise_stuck(session, subject)

        [row] = alerts_about(session, subject)
        assert (row["id"], row["identifier"], row["severity"]) == (alert_id, "REFUND_STUCK", "SEV-3")
        assert (row["title"], row["facts"], row["latest_facts"]) == (TITLE, {"tries": 1}, {"tries": 1})
        assert (row["occurrences"], row["raised_at"], row["last_raised_at"]) == (1, NOW, NOW)
        assert row["resolved_at"] is None

    def test_repeated_alert_increments_count_and_keeps_first_and_latest_facts(
        self, session: Session, subject: str
    ) -> None:
        first = raise_stuck(session, subject)
        raise_stuck(session, subject, facts={"tries": 2}, now=later(hours=1))
        third = raise_stuck(session, subject, facts={"tries": 3}, now=later(hours=2))

        [row] = alerts_about(session, subject)
        assert first == third == row["id"]
        assert (row["occurrences"], row["raised_at"], row["last_raised_at"]) == (3, NOW, later(hours=2))
        assert (row["facts"], row["latest_facts"]) == ({"tries": 1}, {"tries": 3})

    def test_late_repeat_does_not_move_last_raised_time_back(self, session: Session, subject: str) -> None:
        raise_stuck(session, subject, now=later(hours=2))
        raise_stuck(session, subject, now=NOW)

        [row] = alerts_about(session, subject)
        assert row["last_raised_at"] == later(hours=2)

    def test_alert_of_another_subject_or_identifier_is_separate(self, session: Session, subject: str) -> None:
        ids = {
            raise_stuck(session, subject),
            raise_stuck(session, unique_subject()),
            raise_stuck(session, subject, identifier="REFUND_REFUSED"),
        }

        assert len(ids) == 3

    def test_alert_queues_a_message_per_channel_and_none_for_repeats(
        self, session: Session, subject: str
    ) -> None:
        alert_id = raise_stuck(session, subject)
        for hours in range(3):
            raise_stuck(session, subject, now=later(hours=hours))

        assert messages_of(session, alert_id) == [("chat", "raised"), ("email", "raised")]

    def test_higher_severity_queues_messages_again(self, session: Session, subject: str) -> None:
        alert_id = raise_stuck(session, subject)
        raise_stuck(session, subject, severity="SEV-1")
        raise_stuck(session, subject)

        [row] = alerts_about(session, subject)
        assert row["severity"] == "SEV-1"
        assert messages_of(session, alert_id) == [("chat", "raised"), ("email", "raised")] * 2

    def test_undeclared_alert_kind_is_refused(self, session: Session, subject: str) -> None:
        with pytest.raises(KeyError):
            raise_stuck(session, subject, identifier="NOBODY_KNOWS")

    def test_alert_is_logged_once_per_commit(self, database: Database, subject: str) -> None:
        with capture_logs() as logs:
            for tries in (1, 2):
                with database.transaction() as session:
                    alert_id = raise_stuck(session, subject, facts={"tries": tries})
                    assert len(logs) == tries - 1

        assert logs == [
            {
                "event": "alert raised",
                "log_level": "error",
                "severity": "SEV-3",
                "identifier": "REFUND_STUCK",
                "subject": subject,
                "alertId": str(alert_id),
                "occurrences": tries,
                "facts": {"tries": tries},
            }
            for tries in (1, 2)
        ]

    def test_rolled_back_transaction_raises_no_alert(self, database: Database, subject: str) -> None:
        def fail() -> None:
            with database.transaction() as session:
                raise_stuck(session, subject)
                raise ZeroDivisionError

        with database.reading() as session:
            before = session.execute(text("SELECT count(*) FROM outbox_events")).scalar_one()
        with capture_logs() as logs, pytest.raises(ZeroDivisionError):
            fail()

        with database.reading() as session:
            assert alerts_about(session, subject) == []
            assert session.execute(text("SELECT count(*) FROM outbox_events")).scalar_one() == before
        assert logs == []


class TestFacts:
    def test_personal_data_and_secrets_are_redacted_everywhere(
        self, database: Database, subject: str
    ) -> None:
        secrets = {
            "email": "ada@example.com",
            "buyerPhone": "+2348031234567",
            "said": "call 0803 123 4567 or ada@example.com",
            "deliveryPin": "123456",
            "nested": [{"accountNumber": "0123456789"}],
        }
        with capture_logs() as logs, database.transaction() as session:
            raise_stuck(
                session,
                f"{subject} ada@example.com",
                title="Refund of ada@example.com",
                facts={"amountMinor": 250_050, "refundId": subject} | secrets,
            )

        with database.reading() as session:
            [row] = alerts_about(session, f"{subject} {MARKER}")
        assert row["facts"]["amountMinor"] == 250_050
        assert row["facts"]["refundId"] == subject
        for output in (str(row), str(logs)):
            for secret in ("ada@", "0803", "8031234567", "123456", "0123456789"):
                assert secret not in output.replace(subject, "")

    def test_ids_and_amounts_are_not_redacted(self, session: Session, subject: str) -> None:
        facts = {"refundId": uuid4(), "reference": f"checkout-{uuid4().hex}", "toldMinor": 12_345_678_901}
        raise_stuck(session, subject, facts=facts)

        [row] = alerts_about(session, subject)
        assert row["facts"] == facts | {"refundId": str(facts["refundId"])}

    def test_long_facts_are_truncated(self, session: Session, subject: str) -> None:
        raise_stuck(session, subject, facts={"why": "x" * 5_000, "rows": list(range(100))})
        raise_stuck(session, subject, facts={str(number): ["y" * 300] * 25 for number in range(25)})

        [row] = alerts_about(session, subject)
        assert (len(row["facts"]["why"]), len(row["facts"]["rows"])) == (300, 25)
        assert row["latest_facts"].keys() == {"cutBytes"}


class TestResolving:
    def test_alert_is_resolved_once_by_rule(self, session: Session, subject: str) -> None:
        alert_id = raise_stuck(session, subject)

        assert resolve_alert(
            session, identifier="REFUND_STUCK", subject=subject, note="It was sent.", now=later(hours=1)
        )
        assert not resolve_alert(
            session, identifier="REFUND_STUCK", subject=subject, note="It was sent.", now=later(hours=2)
        )

        [row] = alerts_about(session, subject)
        assert (row["resolved_at"], row["resolution"], row["note"]) == (
            later(hours=1),
            "rule",
            "It was sent.",
        )
        assert messages_of(session, alert_id)[2:] == [("chat", "resolved"), ("email", "resolved")]

    def test_alerts_of_several_kinds_are_resolved_together(self, session: Session, subject: str) -> None:
        other = unique_subject()
        for identifier in ("REFUND_STUCK", "REFUND_REFUSED", "REFUND_SENT_TWICE"):
            raise_stuck(session, subject, identifier=identifier)
        raise_stuck(session, other)

        family = ("REFUND_STUCK", "REFUND_REFUSED")
        assert resolve_alert(session, identifier=family, subject=subject, note="Over.", now=NOW)

        state = {row["identifier"]: row["resolution"] for row in alerts_about(session, subject)}
        assert state == {"REFUND_STUCK": "rule", "REFUND_REFUSED": "rule", "REFUND_SENT_TWICE": None}
        assert alerts_about(session, other)[0]["resolved_at"] is None

    def test_alerts_except_listed_subjects_are_resolved(self, session: Session, subject: str) -> None:
        gone = unique_subject()
        session.execute(text("UPDATE alerts SET resolved_at = now(), resolution = 'rule'"))
        for about in (subject, gone):
            raise_stuck(session, about)

        count = resolve_alerts_except(
            session, identifier="REFUND_STUCK", subjects=[subject], note="It is gone.", now=NOW
        )

        assert count == 1
        assert alerts_about(session, subject)[0]["resolved_at"] is None
        assert alerts_about(session, gone)[0]["resolved_at"] == NOW

    def test_alert_raised_after_resolution_is_a_new_alert(self, session: Session, subject: str) -> None:
        first = raise_stuck(session, subject)
        resolve_alert(session, identifier="REFUND_STUCK", subject=subject, note="Over.", now=NOW)
        second = raise_stuck(session, subject, now=later(hours=1))

        assert first != second
        assert [row["occurrences"] for row in alerts_about(session, subject)] == [1, 1]
        assert messages_of(session, second) == [("chat", "raised"), ("email", "raised")]

    def test_alert_resolved_by_officer_is_audited_with_note(self, session: Session, subject: str) -> None:
        officer = make_staff(session, "finance", MANAGE_FINANCES)
        alert_id = raise_stuck(session, subject)

        resolve_manually(
            session,
            alert_id=alert_id,
            note="Paid by hand.",
            act=act_of(officer, now=later(hours=1)),
            officer=officer,
        )

        [row] = alerts_about(session, subject)
        assert (row["resolution"], row["resolved_by"], row["note"]) == (
            "officer",
            officer.id,
            "Paid by hand.",
        )
        entry = (
            session.execute(text("SELECT * FROM audit_logs WHERE target_id = :id"), {"id": str(alert_id)})
            .mappings()
            .one()
        )
        assert (entry["action"], entry["actor_id"], entry["before"]) == (
            "alert.resolve",
            officer.id,
            {"state": "open"},
        )
        assert entry["after"]["note"] == "Paid by hand."

    def test_alert_is_resolved_by_operator(self, session: Session, subject: str) -> None:
        alert_id = raise_stuck(session, subject)

        resolve_manually(session, alert_id=alert_id, note="Seen to.", act=Act("operator", NOW))

        [row] = alerts_about(session, subject)
        assert (row["resolution"], row["resolved_by"]) == ("operator", None)

    def test_alert_is_resolved_once_and_with_permission_only(self, session: Session, subject: str) -> None:
        officer = make_staff(session, "finance", MANAGE_FINANCES)
        other = make_staff(session, "admin", MANAGE_PLATFORM)
        alert_id = raise_stuck(session, subject)
        given: dict[str, Any] = {"alert_id": alert_id, "note": "Done."}

        with pytest.raises(ForbiddenError, match=MANAGE_FINANCES):
            resolve_manually(session, act=act_of(other), officer=other, **given)
        resolve_manually(session, act=act_of(officer), officer=officer, **given)
        with pytest.raises(AlertAlreadyResolvedError):
            resolve_manually(session, act=act_of(officer), officer=officer, **given)
        with pytest.raises(NotFoundError):
            resolve_manually(session, act=Act("operator", NOW), **given | {"alert_id": uuid4()})
        assert len(alerts_about(session, subject)) == 1


class TestReading:
    def test_pages_of_alerts_are_complete_without_repeats(self, session: Session, subject: str) -> None:
        session.execute(text("UPDATE alerts SET resolved_at = now(), resolution = 'rule'"))
        # Two alerts share each time, so the id decides the order.
        raised = [
            raise_stuck(session, f"{subject}:{number}", now=later(hours=number // 2)) for number in range(7)
        ]
        found: list[UUID] = []
        position = None
        for _ in range(4):
            page = queries.list_alerts(session, page=PageRequest(2, position), state="open")
            found += [row.id for row in page.items]
            position = page.next_position

        assert position is None
        assert found == sorted(raised, reverse=True)

    def test_alerts_are_filtered_by_state_severity_and_identifier(
        self, session: Session, subject: str
    ) -> None:
        session.execute(text("UPDATE alerts SET resolved_at = now(), resolution = 'rule'"))
        raise_stuck(session, subject)
        resolve_alert(session, identifier="REFUND_STUCK", subject=subject, note="Over.", now=NOW)
        raise_stuck(session, subject, now=later(days=1000))
        raise_stuck(session, subject, identifier="REFUND_CAME_BACK", now=later(days=1000))

        def found(**filters: Any) -> list[str]:
            page = queries.list_alerts(session, page=PageRequest(100), **filters)
            return sorted(row.identifier for row in page.items if row.subject == subject)

        assert found() == ["REFUND_CAME_BACK", "REFUND_STUCK", "REFUND_STUCK"]
        assert found(state="open") == ["REFUND_CAME_BACK", "REFUND_STUCK"]
        assert found(state="resolved") == ["REFUND_STUCK"]
        assert found(severity="SEV-1") == ["REFUND_CAME_BACK"]
        assert found(identifier="REFUND_STUCK", state="open") == ["REFUND_STUCK"]
        assert found(identifier="ESCROW_DRIFT") == []

    def test_alert_is_read_with_meaning_and_first_step(self, session: Session, subject: str) -> None:
        shown = queries.fetch_alert(session, alert_id=raise_stuck(session, subject))

        kind = kinds.ALERT_KINDS["REFUND_STUCK"]
        assert (shown.meaning, shown.first_step) == (kind.meaning, kind.first_step)
        assert (shown.state, queries.list_deliveries(session, alert_id=shown.id)) == ("open", [])
        with pytest.raises(NotFoundError):
            queries.fetch_alert(session, alert_id=uuid4())

    def test_open_subjects_are_listed_by_alert_kind(self, session: Session, subject: str) -> None:
        raise_stuck(session, subject)

        assert subject in queries.list_open_subjects(session, identifier="REFUND_STUCK")
        assert subject not in queries.list_open_subjects(session, identifier="REFUND_UNKNOWN")
