"""Vendor applications over HTTP: slugs, student IDs, submission, and decisions of staff."""

import io
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from PIL import Image as PillowImage
from sqlalchemy import text
from werkzeug.datastructures import FileStorage
from werkzeug.test import encode_multipart

from blueprints.applications.schemas import OwnApplication, SlugAvailability, StaffApplication
from blueprints.areas import AREAS
from marketplace.applications import slugs
from marketplace.applications.submit import DOCUMENT_RETENTION
from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.media.documents import MAX_BYTES, MAX_UPLOADS_PER_DAY, delete_due_documents
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.gateway import MovableClock, TestGateway
from tests.support.market import Bearer, Market
from tests.support.object_storage import InMemoryStorage
from tests.support.pdf_files import active_pdfs, pdf_that_opens_a_page, plain_pdf
from tests.support.probes import assert_problem, changed, faults
from tests.support.purchases import NOW
from tests.support.sample_images import photo

MINE = "/api/vendors/applications"
STAFF = "/api/vendor-applications"
ACCOUNT = {"bankCode": "058", "accountNumber": "2234567890"}
DESCRIPTION = "Lamps and chargers for your room. Orders before noon go out the same day."
BUCKET = "marketplace-private"


@pytest.fixture(scope="module")
def storage() -> InMemoryStorage:
    return InMemoryStorage()


@pytest.fixture(scope="module")
def application_app(paying_services: Services, storage: InMemoryStorage) -> Flask:
    return checked_app(changed(paying_services, storage=storage), AREAS)


@pytest.fixture
def client(application_app: Flask, clock: MovableClock) -> FlaskClient:
    return application_app.test_client()


def random_slug() -> str:
    # The letters have no look-alikes.
    return "".join("abcdefgh"[int(digit, 16) % 8] for digit in uuid4().hex[:16])


class Applicants:
    """People who apply, and officers who decide."""

    def __init__(
        self, client: FlaskClient, market: Market, bearer: Bearer, gateway: TestGateway, database: Database
    ) -> None:
        self.client, self.market, self.bearer, self.database = client, market, bearer, database
        answer = gateway.call("GET", f"/bank/resolve?account_number={ACCOUNT['accountNumber']}&bank_code=058")
        self.account_name: str = answer["account_name"]

    def person(self, **columns: Any) -> UUID:
        given = {
            "name": self.account_name.title(),
            "phone": f"+234803{uuid4().int % 10**7:07}",
            "phone_verified_at": NOW,
        }
        return self.market.person(**given | columns)

    def upload(
        self, user_id: UUID, content: bytes | None = None, name: str = "id.pdf", boundary: str = "b"
    ) -> Any:
        stream = io.BytesIO(plain_pdf() if content is None else content)
        form = {"file": FileStorage(stream, filename=name)}
        boundary, body = encode_multipart(form, boundary=f"{boundary}{uuid4().hex}")
        return self.client.post(
            f"{MINE}/student-id",
            data=body,
            content_type=f"multipart/form-data; boundary={boundary}",
            headers=self.bearer(user_id),
        )

    def path(self, user_id: UUID) -> str:
        answer = self.upload(user_id)
        assert answer.status_code == 201, answer.json
        path: str = answer.json["data"]["path"]
        return path

    def body(self, user_id: UUID, **fields: Any) -> dict[str, Any]:
        with self.database.reading() as session:
            phone = session.get_one(Profile, user_id).phone
        given = {
            "storeName": "Amara \U0001f4a1 لمبات",
            "slug": random_slug(),
            "campusId": str(self.market.campus_id),
            "categoryIds": [str(self.market.category_id)],
            "description": DESCRIPTION,
            "phone": phone,
            "studentIdPath": "student-ids/unknown.pdf",
            "bankAccount": ACCOUNT,
        }
        return given | fields

    def submit(self, user_id: UUID, **fields: Any) -> Any:
        body = self.body(user_id, **fields)
        if "studentIdPath" not in fields:
            body["studentIdPath"] = self.path(user_id)
        return self.client.post(MINE, json=body, headers=self.bearer(user_id))

    def submitted(self, user_id: UUID, **fields: Any) -> str:
        answer = self.submit(user_id, **fields)
        assert answer.status_code == 201, answer.json
        assert not OwnApplication().validate(answer.json["data"])
        application_id: str = answer.json["data"]["id"]
        return application_id

    def officer(self) -> dict[str, str]:
        return self.bearer(self.market.staff("moderator"))

    def act(self, headers: dict[str, str], application_id: Any, action: str, **body: Any) -> Any:
        path = f"{STAFF}/{application_id}/{action}"
        return self.client.post(path, headers=headers, **({"json": body} if body else {}))

    def reviewed(self, user_id: UUID, headers: dict[str, str], **fields: Any) -> str:
        application_id = self.submitted(user_id, **fields)
        answer = self.act(headers, application_id, "start-review")
        assert answer.status_code == 200, answer.json
        assert not StaffApplication().validate(answer.json["data"])
        return application_id

    def mine(self, user_id: UUID) -> Any:
        answer = self.client.get(f"{MINE}/me", headers=self.bearer(user_id))
        assert answer.status_code == 200, answer.json
        return answer.json["data"]

    def rows(self, sql: str, **values: Any) -> Any:
        with self.database.reading() as session:
            return session.execute(text(sql), values).mappings().all()


@pytest.fixture
def applicants(
    client: FlaskClient, market: Market, bearer: Bearer, gateway: TestGateway, database: Database
) -> Applicants:
    return Applicants(client, market, bearer, gateway, database)


class TestSlug:
    def check(self, client: FlaskClient, slug: str) -> Any:
        answer = client.get(f"/api/vendors/slug/{slug}/available")
        assert answer.status_code == 200, answer.json
        assert not SlugAvailability().validate(answer.json["data"])
        return answer.json["data"]["reason"]

    @pytest.mark.parametrize(
        ("slug", "reason"),
        [
            ("ab", "format"),
            ("a" * 41, "format"),
            ("Amara", "format"),
            ("-amara", "format"),
            ("amara-", "format"),
            ("ama--ra", "format"),
            ("ama_ra", "format"),
            ("amar\u0430", "format"),
            ("admin", "reserved"),
            ("ad-min", "reserved"),
            ("amara-support", "reserved"),
            ("official-amara", "reserved"),
        ],
    )
    def test_faulty_and_reserved_slugs_are_named(self, client: FlaskClient, slug: str, reason: str) -> None:
        assert self.check(client, slug) == reason

    def test_look_alikes_of_stores_and_open_applications_are_taken(self, applicants: Applicants) -> None:
        client, mark = applicants.client, random_slug()
        applicants.market.store(slug=f"lamps-o-{mark}")
        user_id = applicants.person()
        applicants.submitted(user_id, slug=f"corner-shop1-{mark}")
        for slug in (
            f"lamps-o-{mark}",
            f"lamps-0-{mark}",
            f"lamp5o{mark}",
            f"c0rner-shop1-{mark}",
            f"comer-shopi-{mark}",
            f"cornershopl{mark}",
        ):
            assert self.check(client, slug) == "taken", slug
        assert self.check(client, f"lamps-{mark}") is None

        assert client.post(f"{MINE}/me/withdraw", headers=applicants.bearer(user_id)).status_code == 200
        assert self.check(client, f"comer-shopi-{mark}") is None

    def test_availability_is_read_from_the_indexes(self, database: Database) -> None:
        with database.reading() as session:
            session.execute(text("SET LOCAL enable_seqscan = off"))
            explained = text("EXPLAIN " + slugs._SELECT_TAKEN.sql % {"slug": "'amara'"})
            plan = "\n".join(row[0] for row in session.execute(explained))
        assert "uq_vendor_profiles_slug_key" in plan
        assert "uq_vendor_applications_slug" in plan


class TestStudentId:
    def test_pdf_is_stored_in_the_private_bucket(
        self, applicants: Applicants, storage: InMemoryStorage
    ) -> None:
        for content in (plain_pdf(), plain_pdf(pages=20), pdf_that_opens_a_page()):
            answer = applicants.upload(applicants.person(), content)
            assert answer.status_code == 201, answer.json
            stored = storage.objects[answer.json["data"]["path"]]
            assert (stored.content, stored.content_type) == (content, "application/pdf")

    def test_picture_is_stored_without_metadata(
        self, applicants: Applicants, storage: InMemoryStorage
    ) -> None:
        exif = PillowImage.Exif()
        exif[0x010E] = "secret place"
        buffer = io.BytesIO()
        PillowImage.open(io.BytesIO(photo(900, 600))).save(buffer, "JPEG", exif=exif)
        path = applicants.upload(applicants.person(), buffer.getvalue(), "id.pdf").json["data"]["path"]
        stored = storage.objects[path]
        assert b"secret place" not in stored.content
        assert stored.content_type in ("image/jpeg", "image/webp")
        assert not PillowImage.open(io.BytesIO(stored.content)).getexif()

    @pytest.mark.parametrize("kind", active_pdfs())
    def test_active_pdf_is_refused(self, applicants: Applicants, kind: str) -> None:
        answer = applicants.upload(applicants.person(), active_pdfs()[kind])
        assert faults(answer) == ["file"]

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"%PDF-1.7\n%%EOF",
            plain_pdf() + b"PK\x03\x04" + bytes(30),
            plain_pdf() + photo(100, 100),
            plain_pdf()[:-200],
            plain_pdf(pages=21),
            photo(100, 100)[:200],
        ],
        ids=[
            "empty",
            "no pages",
            "zip at the end",
            "picture at the end",
            "truncated",
            "pages",
            "cut picture",
        ],
    )
    def test_damaged_file_and_polyglot_is_refused(self, applicants: Applicants, content: bytes) -> None:
        assert faults(applicants.upload(applicants.person(), content)) == ["file"]

    @pytest.mark.parametrize(
        "content",
        [b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"PK\x03\x04" + plain_pdf(), b" " + plain_pdf()],
        ids=["svg", "zip before a PDF", "space before a PDF"],
    )
    def test_other_formats_are_unsupported(self, applicants: Applicants, content: bytes) -> None:
        answer = applicants.upload(applicants.person(), content)
        assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")

    def test_file_over_ten_megabytes_is_too_large(self, applicants: Applicants) -> None:
        answer = applicants.upload(applicants.person(), plain_pdf() + bytes(MAX_BYTES))
        assert_problem(answer, 413, "PAYLOAD_TOO_LARGE")

    def test_uploads_are_limited_and_unused_uploads_are_deleted(
        self, applicants: Applicants, storage: InMemoryStorage, clock: MovableClock
    ) -> None:
        user_id = applicants.person()
        paths = [applicants.path(user_id) for _ in range(MAX_UPLOADS_PER_DAY)]
        refused = applicants.upload(user_id)
        assert_problem(refused, 409, "CONCURRENCY_CONFLICT")
        used = applicants.submitted(user_id, studentIdPath=paths[0])

        clock.now = NOW + timedelta(hours=24)
        delete_due_documents(applicants.database, storage, bucket=BUCKET, now=clock.now)
        assert [path in storage.objects for path in paths] == [True] + [False] * (MAX_UPLOADS_PER_DAY - 1)
        # The document of a closed application is kept for questions, then deleted.
        withdrawn = applicants.client.post(f"{MINE}/me/withdraw", headers=applicants.bearer(user_id))
        assert (withdrawn.json["data"]["id"], withdrawn.json["data"]["status"]) == (used, "withdrawn")
        delete_due_documents(applicants.database, storage, bucket=BUCKET, now=clock.now)
        assert paths[0] in storage.objects
        clock.now += DOCUMENT_RETENTION
        delete_due_documents(applicants.database, storage, bucket=BUCKET, now=clock.now)
        assert paths[0] not in storage.objects


class TestSubmission:
    def test_application_shows_its_status_to_the_applicant_only(self, applicants: Applicants) -> None:
        user_id = applicants.person()
        application_id = applicants.submitted(user_id)
        data = applicants.mine(user_id)
        assert (data["id"], data["status"], data["question"]) == (application_id, "submitted", None)
        assert data["storeName"] == "Amara \U0001f4a1 لمبات"
        other = applicants.client.get(f"{MINE}/me", headers=applicants.bearer(applicants.person()))
        assert_problem(other, 404, "RESOURCE_NOT_FOUND")
        [row] = applicants.rows("SELECT * FROM vendor_applications WHERE id = :id", id=application_id)
        assert ACCOUNT["accountNumber"] not in str(dict(row))

    def test_one_application_at_a_time_also_at_once(self, applicants: Applicants) -> None:
        user_id = applicants.person()
        paths = [applicants.path(user_id) for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            answers = list(
                pool.map(lambda path: applicants.submit(user_id, studentIdPath=path).status_code, paths)
            )
        assert sorted(answers) == [201, 409, 409]
        refused = applicants.submit(user_id)
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "already-applied"

    def test_one_of_two_applicants_gets_a_slug(self, applicants: Applicants) -> None:
        mark = random_slug()
        people = [applicants.person() for _ in range(4)]
        wishes = [
            (user_id, slug, applicants.path(user_id))
            for user_id, slug in zip(
                people, (f"lo-{mark}", f"l0-{mark}", f"lo{mark}", f"1o-{mark}"), strict=True
            )
        ]
        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(lambda wish: applicants.submit(wish[0], slug=wish[1], studentIdPath=wish[2]), wishes)
            )
        assert sorted(answer.status_code for answer in answers) == [201, 422, 422, 422]
        assert {name for answer in answers if answer.status_code == 422 for name in faults(answer)} == {
            "slug"
        }

    def test_staff_and_store_owners_cannot_apply(self, applicants: Applicants) -> None:
        store = applicants.market.store()
        for user_id in (store.user_id, applicants.market.staff("support")):
            refused = applicants.submit(user_id, studentIdPath="x", phone="+2348031234567")
            assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "cannot-apply"

    def test_unverified_phone_number_and_missing_name_are_refused(self, applicants: Applicants) -> None:
        unverified = applicants.person(phone_verified_at=None)
        assert faults(applicants.submit(unverified)) == ["phone"]
        assert faults(applicants.submit(applicants.person(), phone="+2348030000001")) == ["phone"]
        assert faults(applicants.submit(applicants.person(name=None))) == ["storeName"]

    def test_unknown_bank_account_and_foreign_document_are_refused(self, applicants: Applicants) -> None:
        user_id, other = applicants.person(), applicants.person()
        unknown = applicants.submit(user_id, bankAccount=ACCOUNT | {"accountNumber": "0007719203"})
        assert faults(unknown) == ["bankAccount.accountNumber"]
        foreign = applicants.submit(user_id, studentIdPath=applicants.path(other))
        assert faults(foreign) == ["studentIdPath"]

    @pytest.mark.parametrize(
        ("fields", "names"),
        [
            ({"storeName": "A"}, ["storeName"]),
            ({"storeName": "A" * 81}, ["storeName"]),
            ({"storeName": "Call 0803 123 4567"}, ["storeName"]),
            ({"slug": "admin"}, ["slug"]),
            ({"slug": "x" * 41}, ["slug"]),
            ({"campusId": str(uuid4())}, ["campusId"]),
            ({"categoryIds": []}, ["categoryIds"]),
            ({"categoryIds": [str(uuid4())]}, ["categoryIds[0]"]),
            ({"categoryIds": [str(uuid4()) for _ in range(6)]}, ["categoryIds"]),
            ({"description": "x" * 19}, ["description"]),
            ({"description": "x" * 2_001}, ["description"]),
            ({"description": "Write to amara@example.com for all orders."}, ["description"]),
            ({"phone": "012345678"}, ["phone"]),
            ({"studentIdPath": "../../etc/passwd"}, ["studentIdPath"]),
            ({"bankAccount": {"bankCode": "058", "accountNumber": "123"}}, ["bankAccount.accountNumber"]),
            ({"verified": True}, ["verified"]),
            ({"status": "approved"}, ["status"]),
        ],
    )
    def test_faulty_fields_are_named(
        self, applicants: Applicants, fields: dict[str, Any], names: list[str]
    ) -> None:
        user_id = applicants.person()
        body = applicants.body(user_id, **fields)
        assert faults(applicants.client.post(MINE, json=body, headers=applicants.bearer(user_id))) == names


class TestReview:
    def test_question_and_answer_go_round(self, applicants: Applicants) -> None:
        user_id, officer = applicants.person(), applicants.officer()
        application_id = applicants.reviewed(user_id, officer)
        early = applicants.client.post(
            f"{MINE}/me/answer", json={"answer": "Here."}, headers=applicants.bearer(user_id)
        )
        assert_problem(early, 409, "CONCURRENCY_CONFLICT")
        question = "The ID has expired. Please upload the new card."
        asked = applicants.act(officer, application_id, "request-info", question=question)
        assert asked.status_code == 200
        assert (applicants.mine(user_id)["status"], applicants.mine(user_id)["question"]) == (
            "needs_info",
            question,
        )
        path = applicants.path(user_id)
        answered = applicants.client.post(
            f"{MINE}/me/answer",
            json={"answer": "Here.", "studentIdPath": path},
            headers=applicants.bearer(user_id),
        )
        assert (answered.json["data"]["status"], answered.json["data"]["answer"]) == ("under_review", "Here.")
        link = applicants.act(officer, application_id, "document").json["data"]
        assert path in link["url"]
        assert "seconds=60" in link["url"]
        assert applicants.rows(
            "SELECT * FROM audit_logs WHERE action = 'application.document' AND target_id = :id",
            id=application_id,
        )

    def test_approval_opens_the_store_once(self, applicants: Applicants) -> None:
        user_id, slug = applicants.person(), random_slug()
        officers = [applicants.officer(), applicants.officer()]
        application_id = applicants.reviewed(user_id, officers[0], slug=slug)
        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(
                    lambda headers: applicants.act(headers, application_id, "approve").status_code,
                    officers * 2,
                )
            )
        assert answers == [200] * 4

        [store] = applicants.rows("SELECT * FROM vendor_profiles WHERE user_id = :id", id=user_id)
        assert (store["slug"], store["verified"], store["status"]) == (slug, True, "active")
        me = applicants.client.get("/api/users/me", headers=applicants.bearer(user_id)).json["data"]
        assert (me["role"], me["badges"]) == ("vendor", ["verified_student", "verified_vendor"])
        [account] = applicants.rows("SELECT * FROM payout_accounts WHERE user_id = :id", id=user_id)
        assert (account["account_name"], account["replaced_at"]) == (applicants.account_name, None)
        audited = applicants.rows(
            "SELECT action FROM audit_logs WHERE target_id = :id ORDER BY id", id=application_id
        )
        assert [row["action"] for row in audited] == ["application.start-review", "application.approve"]
        notified = applicants.rows(
            "SELECT type FROM notifications WHERE user_id = :id AND type LIKE 'application%'", id=user_id
        )
        assert [row["type"] for row in notified] == ["application_approved"]
        assert applicants.mine(user_id)["vendorId"] == str(store["id"])
        admin = applicants.bearer(applicants.market.staff("admin"))
        person = applicants.client.get(f"/api/admin/users/{user_id}", headers=admin).json["data"]
        assert [(one["id"], one["status"]) for one in person["applications"]] == [
            (application_id, "approved")
        ]

    def test_two_officers_decide_once(self, applicants: Applicants) -> None:
        user_id = applicants.person()
        application_id = applicants.reviewed(user_id, applicants.officer())

        def decide(action: str) -> int:
            body = {"reason": "The ID belongs to another person."} if action == "reject" else {}
            return int(applicants.act(applicants.officer(), application_id, action, **body).status_code)

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(decide, ("approve", "reject")))
        assert sorted(answers) == [200, 409]
        stores = applicants.rows("SELECT id FROM vendor_profiles WHERE user_id = :id", id=user_id)
        assert len(stores) == (1 if applicants.mine(user_id)["status"] == "approved" else 0)

    def test_rejected_person_sees_the_reason_and_applies_again(self, applicants: Applicants) -> None:
        user_id, slug, officer = applicants.person(), random_slug(), applicants.officer()
        application_id = applicants.reviewed(user_id, officer, slug=slug)
        reason = "The ID belongs to another person."
        assert applicants.act(officer, application_id, "reject", reason=reason).status_code == 200
        assert applicants.mine(user_id)["decisionReason"] == reason
        assert applicants.submitted(user_id, slug=slug) != application_id

    @pytest.mark.parametrize(
        ("columns", "word"),
        [
            ({"phone_verified_at": None}, "phone number"),
            ({"name": "Chidi Nwosu-Okeke"}, "bank account"),
            ({"account_status": "suspended"}, "suspended"),
        ],
    )
    def test_unverified_applicant_is_not_approved(
        self, applicants: Applicants, columns: dict[str, Any], word: str
    ) -> None:
        user_id, officer = applicants.person(), applicants.officer()
        application_id = applicants.reviewed(user_id, officer)
        assignments = ", ".join(f"{name} = :{name}" for name in columns)
        with applicants.database.transaction() as session:
            session.execute(
                text(f"UPDATE profiles SET {assignments} WHERE id = :id"), {"id": user_id, **columns}
            )
        refused = assert_problem(
            applicants.act(officer, application_id, "approve"), 409, "CONCURRENCY_CONFLICT"
        )
        assert (refused["reason"], word in refused["detail"]) == ("applicant-not-verified", True)

    def test_decision_needs_the_permission_the_state_and_another_person(self, applicants: Applicants) -> None:
        user_id = applicants.person()
        application_id = applicants.submitted(user_id)
        for headers in (applicants.bearer(user_id), applicants.bearer(applicants.market.staff("finance"))):
            assert_problem(applicants.act(headers, application_id, "approve"), 403, "AUTH_FORBIDDEN")
            assert_problem(applicants.client.get(STAFF, headers=headers), 403, "AUTH_FORBIDDEN")
        officer = applicants.officer()
        refused = applicants.act(officer, application_id, "approve")
        assert "submitted" in assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["detail"]
        assert_problem(applicants.act(officer, uuid4(), "approve"), 404, "RESOURCE_NOT_FOUND")
        # The applicant joined the staff after the application.
        with applicants.database.transaction() as session:
            session.execute(
                text("UPDATE profiles SET role = 'staff', staff_role = 'moderator' WHERE id = :id"),
                {"id": user_id},
            )
        for action in ("start-review", "approve", "document"):
            own = applicants.act(applicants.bearer(user_id), application_id, action)
            assert assert_problem(own, 403, "AUTH_FORBIDDEN")["reason"] == "conflict-of-interest"

    def test_queue_is_listed_by_cursor_and_filtered(self, applicants: Applicants) -> None:
        officer = applicants.officer()
        campus_id = applicants.market.campus()
        expected = [applicants.submitted(applicants.person(), campusId=str(campus_id)) for _ in range(3)]
        found: list[str] = []
        cursor = None
        while True:
            query = {"limit": 2, "campusId": str(campus_id)} | ({"cursor": cursor} if cursor else {})
            answer = applicants.client.get(STAFF, headers=officer, query_string=query)
            assert not StaffApplication(many=True).validate(answer.json["data"])
            found += [row["application"]["id"] for row in answer.json["data"]]
            cursor = answer.json["meta"]["next_cursor"]
            if cursor is None:
                break
        assert found == expected
        shown = answer.json["data"][0]
        assert shown["accountNumber"] == "******7890"
        assert (shown["phoneVerified"], shown["accountNameMatches"]) == (True, True)
        rejected = {"status": "rejected", "campusId": str(campus_id)}
        assert applicants.client.get(STAFF, headers=officer, query_string=rejected).json["data"] == []
