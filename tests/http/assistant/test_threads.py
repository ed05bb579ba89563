"""Threads of the assistant over HTTP: list, title, flag, deletion, summaries, and the views of staff."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask

from marketplace.assistant import staff, threads
from marketplace.assistant.threads import SUMMARY_AFTER_MESSAGES, SUMMARY_DUE_TOPIC
from marketplace.infra.outbox import OutboxEvent
from tasks.all_tasks import HANDLERS
from tasks.community import handle_due_thread_summary
from tasks.registry import PhasedHandler
from tests.support.assistant import Desk
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW

THREADS = "/api/assistant/threads"
STAFF = "/api/admin/assistant"


@pytest.fixture
def officer(desk: Desk) -> UUID:
    return desk.person(role="staff", staff_role="support")


def start_thread(desk: Desk, person: UUID, question: str = "I need a reading lamp for my room.") -> str:
    response = desk.stream(person, question)
    assert response.status_code == 200
    thread_id: str = response.headers["X-Thread-ID"]
    return thread_id


class TestThreads:
    def test_latest_thread_comes_first_and_pages_follow(self, desk: Desk, clock: MovableClock) -> None:
        person = desk.person()
        made = []
        for minutes in range(3):
            clock.now = NOW + timedelta(minutes=minutes)
            made.append(start_thread(desk, person))
        clock.now = NOW + timedelta(minutes=9)
        desk.ask(person, "Thanks", threadId=made[0])
        first = desk.get(THREADS, person, limit=2).json
        assert [row["id"] for row in first["data"]] == [made[0], made[2]]
        assert first["data"][0]["messageCount"] == 4
        rest = desk.get(THREADS, person, limit=2, cursor=first["meta"]["next_cursor"]).json
        assert [row["id"] for row in rest["data"]] == [made[1]]
        assert desk.get(THREADS, desk.person()).json["data"] == []

    def test_title_is_kept_by_the_thread(self, desk: Desk) -> None:
        person = desk.person()
        thread_id = start_thread(desk, person)
        written = desk.post("/api/assistant/session-title", person, {"threadId": thread_id}).json["data"][
            "title"
        ]
        assert desk.get(THREADS, person).json["data"][0]["title"] == written
        assert 3 <= len(written.split()) <= 5
        stranger = desk.post("/api/assistant/session-title", desk.person(), {"threadId": thread_id})
        assert stranger.status_code == 404
        both = {"threadId": thread_id, "messages": [{"role": "user", "content": "Hi"}]}
        assert faults(desk.post("/api/assistant/session-title", person, both)) == ["messages"]

    def test_deleted_thread_is_gone_also_for_staff(self, desk: Desk, officer: UUID) -> None:
        person = desk.person()
        thread_id = start_thread(desk, person)
        desk.post(f"{THREADS}/{thread_id}/flag", person, {"reason": "harmful"})
        path = f"{THREADS}/{thread_id}"
        assert desk.client.delete(path, headers=desk.bearer(desk.person())).status_code == 404
        assert desk.client.delete(path, headers=desk.bearer(person)).status_code == 200
        assert desk.client.delete(path, headers=desk.bearer(person)).status_code == 404
        assert desk.get(f"{path}/messages", person).status_code == 404
        assert desk.get(f"{STAFF}/flagged-threads/{thread_id}/messages", officer).status_code == 404
        assert desk.stream(person, threadId=thread_id).status_code == 404

    def test_request_with_the_whole_conversation_adds_new_messages_only(self, desk: Desk) -> None:
        person = desk.person()
        thread_id = start_thread(desk, person, "Hello")
        conversation = [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "I changed this answer."},
            {"role": "user", "content": "Thanks"},
        ]
        desk.post("/api/assistant/stream", person, {"threadId": thread_id, "messages": conversation})
        stored = desk.get(f"{THREADS}/{thread_id}/messages", person).json["data"][::-1]
        assert [row["role"] for row in stored] == ["user", "assistant"] * 2
        assert "I changed this answer." not in [row["body"] for row in stored]

    def test_answer_after_the_deletion_is_dropped(self, desk: Desk) -> None:
        person = desk.person()
        thread_id = UUID(start_thread(desk, person))
        with desk.database.transaction() as session:
            threads.delete_thread(session, thread_id=thread_id, user_id=person)
        with desk.database.transaction() as session:
            threads.add_answer(
                session,
                user_id=person,
                thread_id=thread_id,
                number=2,
                body="Late",
                is_complete=True,
                now=NOW,
            )
        assert desk.get(THREADS, person).json["data"] == []

    def test_answer_is_stored_once(self, desk: Desk) -> None:
        person = desk.person()
        thread_id = UUID(start_thread(desk, person))
        with desk.database.transaction() as session:
            threads.add_answer(
                session,
                user_id=person,
                thread_id=thread_id,
                number=2,
                body="Again",
                is_complete=False,
                now=NOW,
            )
        assert desk.get(THREADS, person).json["data"][0]["messageCount"] == 2


class TestSummaries:
    def due(self, desk: Desk, thread_id: str) -> list[dict[str, Any]]:
        with desk.database.reading() as session:
            return [
                event.payload
                for event in session.query(OutboxEvent).filter_by(topic=SUMMARY_DUE_TOPIC)
                if event.payload["threadId"] == thread_id
            ]

    def test_long_thread_is_summarised_and_not_cut(self, desk: Desk, app: Flask) -> None:
        person = desk.person()
        thread_id = start_thread(desk, person, "My budget is small and I like green lamps")
        for number in range(SUMMARY_AFTER_MESSAGES // 2):
            assert self.due(desk, thread_id) == []
            desk.ask(person, f"Question {number}", threadId=thread_id)
        [payload] = self.due(desk, thread_id)
        services = app.extensions["marketplace"]
        job = HANDLERS[SUMMARY_DUE_TOPIC]
        assert isinstance(job, PhasedHandler)
        desk.database.in_transaction(job.prepare(services, payload), payload, NOW)
        desk.ask(person, "What was my wish?", threadId=thread_id)

        sent = desk.prompts()[-1]["messages"]
        assert [message["role"] for message in sent[:2]] == ["system", "user"]
        assert "green lamps" in sent[1]["content"]
        assert len(sent) < SUMMARY_AFTER_MESSAGES
        assert desk.usage(person)["thread_summary"] == (1, True)
        messages = desk.get(f"{THREADS}/{thread_id}/messages", person, limit=100).json["data"]
        assert messages[-1]["body"] == "My budget is small and I like green lamps"

    def test_failed_summary_changes_nothing(self, desk: Desk, app: Flask) -> None:
        person = desk.person()
        thread_id = start_thread(desk, person)
        for number in range(6):
            desk.ask(person, f"Question {number}", threadId=thread_id)
        desk.plan(outcome="error")
        services = app.extensions["marketplace"]
        assert handle_due_thread_summary(services, {"threadId": thread_id}, NOW) is None
        assert handle_due_thread_summary(services, {"threadId": str(uuid4())}, NOW) is None


class TestStaff:
    def test_flagged_thread_is_listed_read_and_reviewed(self, desk: Desk, officer: UUID) -> None:
        person = desk.person()
        private, flagged = start_thread(desk, person), start_thread(desk, person)
        body = {"reason": "wrong", "details": "It said call 0803 123 4567."}
        assert desk.post(f"{THREADS}/{flagged}/flag", desk.person(), body).status_code == 404
        assert desk.post(f"{THREADS}/{flagged}/flag", person, body).status_code == 200
        listed = desk.get(f"{STAFF}/flagged-threads", officer, reviewed="false").json["data"]
        [row] = [row for row in listed if row["id"] == flagged]
        assert row["flagDetails"] == "It said call [REDACTED]."
        messages = desk.get(f"{STAFF}/flagged-threads/{flagged}/messages", officer).json["data"]
        assert [message["role"] for message in messages] == ["assistant", "user"]
        assert desk.get(f"{STAFF}/flagged-threads/{private}/messages", officer).status_code == 404
        review = f"{STAFF}/flagged-threads/{flagged}/review"
        assert desk.post(review, officer, {}).json["data"]["reviewedAt"] is not None
        again = assert_problem(desk.post(review, officer, {}), 409, "CONCURRENCY_CONFLICT")
        assert again["reason"] == "thread-reviewed"
        open_rows = desk.get(f"{STAFF}/flagged-threads", officer, reviewed="false", limit=100).json["data"]
        assert flagged not in [row["id"] for row in open_rows]
        desk.post(f"{THREADS}/{flagged}/flag", person, {"reason": "privacy"})
        open_rows = desk.get(f"{STAFF}/flagged-threads", officer, reviewed="false", limit=100).json["data"]
        assert flagged in [row["id"] for row in open_rows]

    def test_usage_and_cost_are_shown_by_day_and_person(
        self, desk: Desk, officer: UUID, clock: MovableClock
    ) -> None:
        day = NOW + timedelta(days=400)
        clock.now = day
        first, second = desk.person(), desk.person()
        desk.ask(first)
        desk.ask(first)
        desk.ask(second, "Hello " * 100)
        period = {"from": day.date().isoformat(), "to": day.date().isoformat()}
        [row] = desk.get(f"{STAFF}/usage", officer, **period).json["data"]
        assert (row["purpose"], row["people"], row["calls"]) == ("conversation", 2, 3)
        people = desk.get(f"{STAFF}/usage/people", officer, **period, limit=1).json
        rest = desk.get(
            f"{STAFF}/usage/people",
            officer,
            **period,
            limit=1,
            cursor=people["meta"]["next_cursor"],
        ).json
        rows = people["data"] + rest["data"]
        assert {person["userId"] for person in rows} == {str(first), str(second)}
        assert rows[0]["costMicros"] >= rows[1]["costMicros"] > 0
        assert sum(person["costMicros"] for person in rows) == row["costMicros"]

    @pytest.mark.parametrize(("first", "last"), [("2030-01-02", "2030-01-01"), ("2030-01-01", "2030-04-03")])
    def test_invalid_period_is_refused(self, desk: Desk, officer: UUID, first: str, last: str) -> None:
        assert faults(desk.get(f"{STAFF}/usage", officer, **{"from": first, "to": last})) == ["from"]

    def test_last_evaluations_are_shown(self, desk: Desk, officer: UUID) -> None:
        scores = [{"intent": "search", "questions": 12, "right": 11}]
        with desk.database.transaction() as session:
            staff.record_evaluation(
                session, model="tests", prompt_version="conversation_v1", scores=scores, now=NOW
            )
        row = desk.get(f"{STAFF}/evaluations", officer).json["data"][0]
        assert (row["model"], row["questionCount"], row["rightCount"]) == ("tests", 12, 11)
        assert row["scores"] == scores

    @pytest.mark.parametrize("path", ["usage", "usage/people", "flagged-threads", "evaluations"])
    def test_views_are_for_support_only(self, desk: Desk, path: str) -> None:
        finance = desk.person(role="staff", staff_role="finance")
        for caller in (desk.person(), finance):
            assert_problem(desk.get(f"{STAFF}/{path}", caller), 403, "AUTH_FORBIDDEN")
