"""Erasure of personal data: plan, execution in batches, receipt, tombstone, and repetition after a restored backup."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from flask.testing import FlaskClient
from sqlalchemy import select, text

from blueprints.areas import AREAS
from marketplace.audit.operations import Act
from marketplace.audit.person_keys import owner_of_contact, seal, unseal
from marketplace.audit.signatures import is_signed
from marketplace.identity.models import DeletionRequest
from marketplace.infra.db import Database
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.notifications.operations import notify
from marketplace.people.account_status import bar_account, end_due_decisions
from marketplace.privacy import erasure as erasure_module
from marketplace.privacy.erasure import TOPIC, read_receipts, reapply_erasure
from marketplace.services import Services
from marketplace.support.models import SupportContact
from tasks.all_tasks import HANDLERS
from tasks.maintenance import stored_files
from tasks.registry import PhasedHandler
from tests.support.checked_client import checked_app
from tests.support.finance import delivered_order
from tests.support.gateway import MovableClock
from tests.support.market import Bearer
from tests.support.object_storage import InMemoryStorage
from tests.support.personal_life import Life, find_strings, make_life
from tests.support.probes import assert_problem
from tests.support.purchases import (
    NOW,
    assert_ledger_is_consistent,
    fill_wallet,
    make_person,
    make_shop,
    paid_order,
)

PLANS, EXECUTIONS = "/api/privacy/erasure-plans", "/api/privacy/erasure-executions"


@dataclass
class RecordedAccounts:
    """Accounts at the identity provider, with an optional failure."""

    deleted: list[UUID] = field(default_factory=list)
    fails: bool = False

    def delete(self, user_id: UUID) -> None:
        if self.fails:
            raise ProviderUnavailableError("The identity provider did not answer.")
        self.deleted.append(user_id)


@dataclass
class Erasures:
    """A client, an officer, the storage, and the job."""

    client: FlaskClient
    database: Database
    storage: InMemoryStorage
    accounts: RecordedAccounts
    bearer: Bearer
    services: Services
    officer_id: UUID

    @property
    def officer(self) -> dict[str, str]:
        return self.bearer(self.officer_id, aal="aal2")

    def life(self) -> Life:
        shop = self.database.in_transaction(make_shop)
        return self.database.in_transaction(make_life, self.storage, shop)

    def person(self) -> UUID:
        return self.database.in_transaction(make_person).id

    def plan(self, user_id: UUID) -> Any:
        answer = self.client.post(PLANS, headers=self.officer, json={"userId": str(user_id)})
        assert answer.status_code == 201, answer.json
        return answer.json["data"]

    def execute(self, plan: Any, **changes: Any) -> Any:
        body = {"planId": plan["planId"], "hash": plan["hash"]} | changes
        return self.client.post(EXECUTIONS, headers=self.officer, json=body)

    def start(self, user_id: UUID) -> str:
        answer = self.execute(self.plan(user_id))
        assert answer.status_code == 202, answer.json
        return str(answer.json["data"]["executionId"])

    def run_once(self, execution_id: str) -> None:
        job = HANDLERS[TOPIC]
        assert isinstance(job, PhasedHandler)
        payload = {"executionId": execution_id}
        finish = job.prepare(self.services, payload)
        self.database.in_transaction(finish, payload, NOW)

    def show(self, execution_id: str) -> Any:
        answer = self.client.get(f"{EXECUTIONS}/{execution_id}", headers=self.officer)
        assert answer.status_code == 200, answer.json
        return answer.json["data"]

    def erase(self, user_id: UUID) -> Any:
        execution_id = self.start(user_id)
        for _ in range(20):
            self.run_once(execution_id)
            shown = self.show(execution_id)
            if shown["status"] == "finished":
                return shown
        raise AssertionError("the erasure did not finish")

    def cached(self, strings: list[str]) -> dict[bytes, int]:
        """Search the cache for strings, and return the keys with their remaining seconds."""
        client = redis.Redis.from_url(self.services.settings.redis_url)
        words = [each.encode() for each in strings]
        keys = [key for key in client.scan_iter() if client.type(key) == b"string"]
        return {
            key: int(client.ttl(key))
            for key in keys
            if (value := client.get(key)) and any(word in value for word in words)
        }

    def found(self, strings: list[str]) -> dict[str, set[str]]:
        with self.database.reading() as session:
            return find_strings(session, strings)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure_module, "_PAUSE_RATIO", 0)


@pytest.fixture(scope="module")
def site(paying_services: Services) -> tuple[FlaskClient, Services, InMemoryStorage, RecordedAccounts]:
    storage, accounts = InMemoryStorage(), RecordedAccounts()
    services = replace(paying_services, storage=storage, identity_accounts=accounts)
    return checked_app(services, AREAS).test_client(), services, storage, accounts


@pytest.fixture
def erasures(
    site: tuple[FlaskClient, Services, InMemoryStorage, RecordedAccounts],
    bearer: Bearer,
    clock: MovableClock,
) -> Erasures:
    assert clock.now == NOW
    client, services, storage, accounts = site
    storage.objects.clear()
    accounts.deleted.clear()
    storage.fails = accounts.fails = False
    officer = services.database.in_transaction(make_person, role="staff", staff_role="compliance").id
    return Erasures(client, services.database, storage, accounts, bearer, services, officer)


class TestErasedData:
    def test_strings_and_files_of_a_buyer_are_gone(self, erasures: Erasures) -> None:
        life = erasures.life()
        buyer = life.shop.buyer.id
        assert set(erasures.found(life.buyer_strings)) == set(life.buyer_strings)

        erasures.erase(buyer)

        assert erasures.found(life.buyer_strings) == {}
        assert not set(life.buyer_files) & set(erasures.storage.objects)
        with erasures.database.reading() as session:
            assert_ledger_is_consistent(session)

    def test_strings_and_files_of_a_vendor_are_gone(self, erasures: Erasures) -> None:
        life = erasures.life()

        erasures.erase(life.shop.vendor.id)

        assert erasures.found(life.vendor_strings) == {}
        assert not set(life.vendor_files) & set(erasures.storage.objects)

    def test_cached_pages_lose_the_store_at_once(self, erasures: Erasures) -> None:
        life = erasures.life()
        path = f"/api/products?vendor={life.shop.store_id}"
        for _ in range(2):
            assert "Adaeze glow lantern" in erasures.client.get(path).text
        assert erasures.cached(life.vendor_strings)

        erasures.erase(life.shop.vendor.id)

        assert erasures.client.get(path).json["data"] == []
        # Replaced pages stay in the cache until their time is over, and no request finds them.
        for key, seconds in erasures.cached(life.vendor_strings).items():
            assert key.startswith(b"m2:c:")
            assert 0 < seconds <= 3600

    def test_other_people_keep_all_data(self, erasures: Erasures) -> None:
        life = erasures.life()
        before = erasures.found(life.vendor_strings)

        erasures.erase(life.shop.buyer.id)

        assert erasures.found(life.vendor_strings) == before
        assert set(life.vendor_files) <= set(erasures.storage.objects)

    def test_former_account_is_an_empty_pseudonym(self, erasures: Erasures) -> None:
        life = erasures.life()
        buyer = life.shop.buyer.id
        with erasures.database.reading() as session:
            orders = session.scalar(text("SELECT count(*) FROM orders WHERE buyer_id = :id"), {"id": buyer})

        erasures.erase(buyer)

        with erasures.database.reading() as session:
            profile = session.execute(text("SELECT * FROM profiles WHERE id = :id"), {"id": buyer}).one()
            kept = session.scalar(text("SELECT count(*) FROM orders WHERE buyer_id = :id"), {"id": buyer})
            address = session.scalar(
                text("SELECT shipping_address FROM orders WHERE buyer_id = :id"), {"id": buyer}
            )
            exports = session.scalar(
                text("SELECT count(*) FROM privacy_exports WHERE user_id = :id"), {"id": buyer}
            )
        assert (profile.name, profile.email, profile.account_status) == (None, None, "suspended")
        assert (kept, address, exports) == (orders, {}, 0)

    def test_evidence_of_disputes_is_kept(self, erasures: Erasures) -> None:
        life = erasures.life()
        with erasures.database.transaction() as session:
            session.execute(text("SET LOCAL session_replication_role = 'replica'"))
            session.execute(
                text(
                    "INSERT INTO dispute_evidence (dispute_id, sent_by, kind, document_id, content_type, byte_count,"
                    " sha256, created_at) SELECT :dispute, 'buyer', 'photo', id, content_type, byte_count, :hash, :now"
                    " FROM private_documents WHERE key = :key"
                ),
                {"dispute": uuid4(), "hash": "0" * 64, "now": NOW, "key": life.evidence_file},
            )

        erasures.erase(life.shop.buyer.id)

        assert life.evidence_file in erasures.storage.objects

    def test_sealed_values_become_unreadable(self, erasures: Erasures) -> None:
        life = erasures.life()
        buyer = life.shop.buyer.id
        with erasures.database.transaction() as session:
            sender = session.scalars(
                select(SupportContact.sender).where(SupportContact.profile_id == buyer)
            ).one()
            owners = [buyer, owner_of_contact(sender), life.shop.vendor.id]
            sealed = [seal(session, "192.0.2.77", owner_id=owner) for owner in owners]

        erasures.erase(buyer)

        with erasures.database.reading() as session:
            assert [unseal(session, words) for words in sealed] == [None, None, "192.0.2.77"]

    def test_erased_person_gets_no_notifications(self, erasures: Erasures) -> None:
        person = erasures.person()
        erasures.erase(person)

        with erasures.database.transaction() as session:
            notify(
                session, user_id=person, type="order_paid", title="Paid", body="Paid", link=None,
                cause="late", now=NOW,
            )  # fmt: skip
            count = session.scalar(
                text("SELECT count(*) FROM notifications WHERE user_id = :id"), {"id": person}
            )
        assert count == 0


class TestReturn:
    def test_old_token_is_refused(self, erasures: Erasures) -> None:
        person = erasures.person()
        token = erasures.bearer(person)
        erasures.start(person)

        for path in ("/api/users/me", "/api/cart", "/api/notifications"):
            problem = assert_problem(erasures.client.get(path, headers=token), 403, "AUTH_FORBIDDEN")
            assert problem["reason"] == "account-erased"
        assert erasures.client.get("/api/products", headers=token).status_code == 200

    def test_account_at_the_identity_provider_is_deleted(self, erasures: Erasures) -> None:
        person = erasures.person()

        assert erasures.erase(person)["receipt"]["identityAccountDeleted"] is True
        assert erasures.accounts.deleted == [person]

    def test_email_can_be_used_by_a_new_account(self, erasures: Erasures) -> None:
        life, newcomer = erasures.life(), uuid4()
        with erasures.database.reading() as session:
            email = session.scalar(
                text("SELECT email FROM profiles WHERE id = :id"), {"id": life.shop.buyer.id}
            )
        erasures.erase(life.shop.buyer.id)

        answer = erasures.client.get("/api/users/me", headers=erasures.bearer(newcomer, email=email))

        assert answer.status_code == 200
        assert answer.json["data"]["email"] == email


class TestStaff:
    def test_current_decision_ends_with_the_erasure(self, erasures: Erasures) -> None:
        person, other = erasures.person(), erasures.person()
        admin = erasures.database.in_transaction(make_person, role="staff", staff_role="admin").id
        for user_id in (person, other):
            erasures.database.in_transaction(
                bar_account,
                user_id=user_id,
                status="restricted",
                reason="Counterfeit phones.",
                until=NOW + timedelta(days=1),
                act=Act("admin", NOW, user_id=admin),
            )
        erasures.erase(person)
        with erasures.database.reading() as session:
            left = session.scalar(
                text("SELECT count(*) FROM account_decisions WHERE user_id = :id AND ended_at IS NULL"),
                {"id": person},
            )
        assert left == 0

        end_due_decisions(erasures.database, now=NOW + timedelta(days=2))

        with erasures.database.reading() as session:
            rows = session.execute(
                text("SELECT id, account_status FROM profiles WHERE id = ANY(:ids)"), {"ids": [person, other]}
            )
            assert {row.id: row.account_status for row in rows} == {person: "suspended", other: "active"}

    @pytest.mark.parametrize(
        ("method", "action", "body"),
        [
            ("post", "reinstate", {"reason": "By mistake."}),
            ("post", "restrict", {"reason": "By mistake."}),
            ("put", "staff-role", {"staffRole": "support", "reason": "By mistake."}),
        ],
    )
    def test_staff_cannot_change_an_erased_account(
        self, erasures: Erasures, method: str, action: str, body: dict[str, str]
    ) -> None:
        person = erasures.person()
        admin = erasures.database.in_transaction(make_person, role="staff", staff_role="admin").id
        erasures.start(person)

        refused = getattr(erasures.client, method)(
            f"/api/admin/users/{person}/{action}", headers=erasures.bearer(admin, aal="aal2"), json=body
        )

        assert "erased" in assert_problem(refused, 404, "RESOURCE_NOT_FOUND")["detail"]


class TestPlan:
    def test_plan_names_rows_reasons_and_ends(self, erasures: Erasures) -> None:
        life = erasures.life()

        plan = erasures.plan(life.shop.buyer.id)

        tables = {entry["table"]: entry for entry in plan["tables"]}
        assert plan["blockers"] == []
        assert (tables["addresses"]["action"], tables["addresses"]["rows"]) == ("erase", 1)
        assert (tables["orders"]["action"], tables["orders"]["rows"]) == ("retain", 1)
        assert tables["orders"]["retainUntil"] == "2033-11-18"
        assert "tax" in tables["orders"]["reason"]
        assert "shipping_address" in tables["orders"]["clearedColumns"]

    def test_open_order_and_money_block(self, erasures: Erasures) -> None:
        shop = erasures.database.in_transaction(make_shop)
        erasures.database.in_transaction(paid_order, shop)
        erasures.database.in_transaction(fill_wallet, shop.buyer.id, 5_000)

        plan = erasures.plan(shop.buyer.id)

        blockers = {blocker["kind"]: blocker for blocker in plan["blockers"]}
        assert set(blockers) == {"open_orders", "escrow", "wallet_money"}
        assert blockers["wallet_money"]["amountMinor"] == 5_000
        problem = assert_problem(erasures.execute(plan), 409, "CONCURRENCY_CONFLICT")
        assert problem["reason"] == "erasure-blocked"
        assert {blocker["kind"] for blocker in problem["blockers"]} == set(blockers)

    def test_vendor_with_money_to_pay_out_is_blocked(self, erasures: Erasures) -> None:
        shop = erasures.database.in_transaction(make_shop)
        erasures.database.in_transaction(delivered_order, shop)

        assert [blocker["kind"] for blocker in erasures.plan(shop.vendor.id)["blockers"]] == ["payable_money"]

    def test_grace_period_blocks_until_the_end(self, erasures: Erasures, clock: MovableClock) -> None:
        person = erasures.person()
        with erasures.database.transaction() as session:
            session.add(
                DeletionRequest(user_id=person, requested_at=NOW, grace_ends_at=NOW + timedelta(days=30))
            )
        assert [blocker["kind"] for blocker in erasures.plan(person)["blockers"]] == ["grace_period"]

        clock.now += timedelta(days=30)
        erasures.erase(person)

        with erasures.database.reading() as session:
            status = session.scalar(
                text("SELECT status FROM deletion_requests WHERE user_id = :id"), {"id": person}
            )
        assert status == "executed"

    def test_staff_are_blocked_until_the_role_is_revoked(self, erasures: Erasures) -> None:
        officer = erasures.database.in_transaction(make_person, role="staff", staff_role="support").id

        assert [blocker["kind"] for blocker in erasures.plan(officer)["blockers"]] == ["staff_role"]

    def test_unknown_and_erased_people_have_no_plan(self, erasures: Erasures) -> None:
        person = erasures.person()
        erasures.start(person)

        unknown = erasures.client.post(PLANS, headers=erasures.officer, json={"userId": str(uuid4())})
        again = erasures.client.post(PLANS, headers=erasures.officer, json={"userId": str(person)})

        assert_problem(unknown, 404, "RESOURCE_NOT_FOUND")
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["reason"] == "account-already-erased"


class TestExecution:
    def test_wrong_hash_is_refused(self, erasures: Erasures) -> None:
        plan = erasures.plan(erasures.person())

        problem = assert_problem(erasures.execute(plan, hash="0" * 64), 409, "CONCURRENCY_CONFLICT")

        assert problem["reason"] == "erasure-plan-changed"
        assert_problem(erasures.execute(plan, hash="short"), 422, "VALIDATION_FAILED")
        assert_problem(erasures.execute(plan, planId=str(uuid4())), 404, "RESOURCE_NOT_FOUND")

    @pytest.mark.parametrize("change", ["UPDATE profiles SET name = 'New' WHERE id = :id", "order"])
    def test_change_since_the_plan_is_refused(self, erasures: Erasures, change: str) -> None:
        shop = erasures.database.in_transaction(make_shop)
        plan = erasures.plan(shop.buyer.id)
        if change == "order":
            erasures.database.in_transaction(paid_order, shop)
        else:
            with erasures.database.transaction() as session:
                session.execute(text(change), {"id": shop.buyer.id})

        problem = assert_problem(erasures.execute(plan), 409, "CONCURRENCY_CONFLICT")

        assert problem["reason"] == {"order": "erasure-blocked"}.get(change, "erasure-plan-changed")

    def test_officer_cannot_erase_the_own_data(self, erasures: Erasures) -> None:
        answer = erasures.client.post(
            PLANS, headers=erasures.officer, json={"userId": str(erasures.officer_id)}
        )

        assert assert_problem(answer, 403, "AUTH_FORBIDDEN")["reason"] == "conflict-of-interest"

    def test_execution_needs_two_factors_and_the_permission(self, erasures: Erasures) -> None:
        plan = erasures.plan(erasures.person())
        body = {"planId": plan["planId"], "hash": plan["hash"]}
        admin = erasures.database.in_transaction(make_person, role="staff", staff_role="admin").id

        single = erasures.client.post(EXECUTIONS, headers=erasures.bearer(erasures.officer_id), json=body)
        other = erasures.client.post(EXECUTIONS, headers=erasures.bearer(admin, aal="aal2"), json=body)

        assert_problem(single, 403, "AUTH_AAL2_REQUIRED")
        assert_problem(other, 403, "AUTH_FORBIDDEN")

    def test_concurrent_executions_share_an_execution(self, erasures: Erasures) -> None:
        plan = erasures.plan(erasures.person())

        def execute(_: int) -> Any:
            client = erasures.client.application.test_client()
            body = {"planId": plan["planId"], "hash": plan["hash"]}
            return client.post(EXECUTIONS, headers=erasures.officer, json=body)

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(execute, range(4)))

        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json["data"]["executionId"] for answer in answers}) == 1

    def test_other_plan_of_the_same_person_is_refused(self, erasures: Erasures) -> None:
        person = erasures.person()
        first, second = erasures.plan(person), erasures.plan(person)
        assert erasures.execute(first).status_code == 202

        problem = assert_problem(erasures.execute(second), 409, "CONCURRENCY_CONFLICT")

        assert problem["reason"] == "account-already-erased"

    def test_worker_killed_in_each_batch_leaves_nothing(
        self, erasures: Erasures, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        life = erasures.life()
        execution_id = erasures.start(life.shop.buyer.id)
        batches = iter(range(1_000))
        run_batch = erasure_module._run_batch

        def die_after_one(*args: Any, **kwargs: Any) -> int:
            if next(batches) % 2:
                raise KeyboardInterrupt
            return run_batch(*args, **kwargs)

        monkeypatch.setattr(erasure_module, "_run_batch", die_after_one)
        crashes = 0
        while erasures.show(execution_id)["status"] == "running":
            try:
                erasures.run_once(execution_id)
            except KeyboardInterrupt:
                crashes += 1

        assert crashes > 10
        assert erasures.found(life.buyer_strings) == {}
        assert erasures.show(execution_id)["erasedRows"]["addresses"] == 1

    def test_long_erasure_goes_on_in_further_jobs(
        self, erasures: Erasures, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        life = erasures.life()
        execution_id = erasures.start(life.shop.buyer.id)
        monkeypatch.setattr(erasure_module, "_RUN_SECONDS", 0)

        erasures.run_once(execution_id)

        assert erasures.show(execution_id)["status"] == "running"
        with erasures.database.reading() as session:
            jobs = session.scalar(
                text(
                    "SELECT count(*) FROM outbox_events WHERE topic = :topic AND payload->>'executionId' = :id"
                ),
                {"topic": TOPIC, "id": execution_id},
            )
        assert jobs == 2

    @pytest.mark.parametrize("part", ["storage", "accounts"])
    def test_unavailable_provider_delays_the_end(self, erasures: Erasures, part: str) -> None:
        life = erasures.life()
        execution_id = erasures.start(life.shop.buyer.id)
        provider = getattr(erasures, part)
        provider.fails = True
        with pytest.raises(ProviderUnavailableError):
            erasures.run_once(execution_id)
        assert erasures.show(execution_id)["status"] == "running"

        provider.fails = False
        erasures.run_once(execution_id)

        assert erasures.show(execution_id)["status"] == "finished"
        assert not set(life.buyer_files) & set(erasures.storage.objects)

    def test_second_job_after_the_end_does_nothing(self, erasures: Erasures) -> None:
        shown = erasures.erase(erasures.person())

        erasures.run_once(shown["executionId"])

        assert erasures.show(shown["executionId"]) == shown


class TestReceipt:
    def test_receipt_is_verified_with_the_published_key(self, erasures: Erasures) -> None:
        life = erasures.life()
        receipt = erasures.erase(life.shop.buyer.id)["receipt"]
        key = erasures.client.get("/api/privacy/signing-key").json["data"]

        assert is_signed(receipt, public_key=key["publicKey"])
        assert receipt["signature"]["keyId"] == key["keyId"]
        assert receipt["erasedRows"]["images"] == 3
        assert not is_signed(receipt | {"userId": str(uuid4())}, public_key=key["publicKey"])
        assert not is_signed(receipt | {"signature": {"value": "x"}}, public_key=key["publicKey"])
        assert not any(words in json.dumps(receipt) for words in life.buyer_strings)

    def test_restored_backup_is_erased_again(self, erasures: Erasures) -> None:
        life = erasures.life()
        buyer = life.shop.buyer.id
        erasures.erase(buyer)
        with erasures.database.transaction() as session:
            session.execute(text("DELETE FROM erasure_executions WHERE user_id = :id"), {"id": buyer})
            session.execute(text("DELETE FROM erased_identities"))
            session.execute(
                text(
                    "UPDATE profiles SET erased_at = NULL, account_status = 'active', name = :name WHERE id = :id"
                ),
                {"id": buyer, "name": life.buyer_strings[0]},
            )

        receipts = read_receipts(stored_files(erasures.services))
        started = [
            erasures.database.in_transaction(reapply_erasure, receipt=receipt, now=NOW)
            for receipt in receipts
        ]
        assert started == [True]
        with erasures.database.reading() as session:
            execution_id = session.scalar(
                text("SELECT id FROM erasure_executions WHERE user_id = :id"), {"id": buyer}
            )
        erasures.run_once(str(execution_id))

        assert erasures.show(str(execution_id))["status"] == "finished"
        assert erasures.found(life.buyer_strings) == {}
        problem = erasures.client.get("/api/users/me", headers=erasures.bearer(buyer))
        assert assert_problem(problem, 403, "AUTH_FORBIDDEN")["reason"] == "account-erased"

    def test_person_missing_in_the_backup_cannot_come_back(self, erasures: Erasures) -> None:
        person = uuid4()
        receipt = {"userId": str(person), "tables": []}

        assert not erasures.database.in_transaction(reapply_erasure, receipt=receipt, now=NOW)

        answer = erasures.client.get("/api/users/me", headers=erasures.bearer(person))
        assert assert_problem(answer, 403, "AUTH_FORBIDDEN")["reason"] == "account-erased"

    def test_forged_receipts_in_the_storage_are_ignored(self, erasures: Erasures) -> None:
        erasures.storage.put(
            bucket="marketplace-private",
            key="erasures/forged.json",
            content=json.dumps({"userId": str(erasures.person())}).encode(),
            content_type="application/json",
        )

        assert read_receipts(stored_files(erasures.services)) == []
