"""Exports of personal data: request, archive, expiry, and what the archive has and leaves out."""

import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import pyzipper
from flask.testing import FlaskClient
from sqlalchemy import select, text

from blueprints.areas import AREAS
from marketplace.chat.models import ChatBlock
from marketplace.infra.db import Database
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.media.documents import delete_due_documents
from marketplace.models import metadata
from marketplace.privacy import archive as archive_module
from marketplace.privacy.exports import DEADLINE, LIFETIME, TOPIC, expire_exports
from marketplace.privacy.models import PrivacyExport
from marketplace.privacy.register import PERSONAL_TABLES
from marketplace.services import Services
from tasks.all_tasks import HANDLERS
from tasks.registry import PhasedHandler
from tests.support.checked_client import checked_app
from tests.support.gateway import MovableClock
from tests.support.market import Bearer
from tests.support.object_storage import InMemoryStorage
from tests.support.probes import assert_problem
from tests.support.purchases import NOW, make_person, make_product, make_shop, pin_of, place, shipped_order

PATH = "/api/users/me/privacy-exports"


@dataclass
class Exports:
    """A client, the storage, and the job."""

    client: FlaskClient
    database: Database
    storage: InMemoryStorage
    bearer: Bearer
    services: Services

    def person(self) -> UUID:
        return self.database.in_transaction(make_person).id

    def request(self, user_id: UUID) -> Any:
        return self.client.post(PATH, headers=self.bearer(user_id))

    def get(self, path: str, user_id: UUID) -> Any:
        return self.client.get(f"{PATH}{path}", headers=self.bearer(user_id))

    def prepare(self, export_id: str) -> Callable[[], None]:
        """Run the job until the last phase, as a worker does, and return the last phase."""
        job = HANDLERS[TOPIC]
        assert isinstance(job, PhasedHandler)
        payload = {"exportId": export_id}
        finish = job.prepare(self.services, payload)
        return lambda: self.database.in_transaction(finish, payload, NOW)

    def status(self, user_id: UUID) -> str:
        return str(self.get("", user_id).json["data"][0]["status"])

    def run(self, user_id: UUID) -> tuple[str, pyzipper.AESZipFile]:
        """Request and prepare an export, and open the archive."""
        made = self.request(user_id).json["data"]
        self.prepare(made["id"])()
        return made["id"], self.open(made["id"], made["passphrase"])

    def open(self, export_id: str, passphrase: str) -> pyzipper.AESZipFile:
        with self.database.reading() as session:
            key = session.scalar(
                text(
                    "SELECT d.key FROM privacy_exports e JOIN private_documents d ON d.id = e.document_id"
                    " WHERE e.id = :id"
                ),
                {"id": export_id},
            )
        archive = pyzipper.AESZipFile(io.BytesIO(self.storage.objects[str(key)].content))
        archive.setpassword(passphrase.encode())
        return archive


@pytest.fixture(scope="module")
def site(paying_services: Services) -> tuple[FlaskClient, Services, InMemoryStorage]:
    storage = InMemoryStorage()
    services = replace(paying_services, storage=storage)
    return checked_app(services, AREAS).test_client(), services, storage


@pytest.fixture
def exports(
    site: tuple[FlaskClient, Services, InMemoryStorage], bearer: Bearer, clock: MovableClock
) -> Exports:
    assert clock.now == NOW
    client, services, storage = site
    storage.objects.clear()
    storage.fails = False
    return Exports(client, services.database, storage, bearer, services)


def test_archive_opens_with_the_passphrase_only(exports: Exports) -> None:
    person = exports.person()
    export_id, archive = exports.run(person)
    assert json.loads(archive.read("profile.json"))["profiles"][0]["id"] == str(person)
    with pytest.raises(RuntimeError):
        exports.open(export_id, "AAAA-BBBB").read("profile.json")
    [row] = exports.get("", person).json["data"]
    assert (row["status"], row["id"]) == ("ready", export_id)
    link = exports.get(f"/{export_id}/artifact", person).json["data"]
    assert "seconds=60&" in link["url"]
    assert link["expiresAt"] == "2026-11-20T09:31:00Z"


def test_archive_has_a_document_for_each_area_and_an_index(exports: Exports) -> None:
    _, archive = exports.run(exports.person())
    areas = {rule.area for rule in PERSONAL_TABLES.values()}
    assert set(archive.namelist()) == {*(f"{area}.json" for area in areas), "index.html"}
    index = archive.read("index.html").decode()
    for table in PERSONAL_TABLES:
        assert f"<td>{table}</td>" in index
    for area in areas:
        assert isinstance(json.loads(archive.read(f"{area}.json")), dict)


def test_order_is_exported_for_both_sides_without_the_other_address(exports: Exports) -> None:
    with exports.database.transaction() as session:
        shop = make_shop(session)
        order_id = shipped_order(session, shop)
    documents = {}
    for side, user_id in (("buyer", shop.buyer.id), ("vendor", shop.vendor.id)):
        _, archive = exports.run(user_id)
        content = archive.read("orders.json").decode()
        assert pin_of(order_id) not in content
        [documents[side]] = json.loads(content)["orders"]
    assert documents["buyer"]["shipping_address"]
    assert documents["vendor"]["shipping_address"] is None


def test_vendor_does_not_get_orders_that_were_never_paid(exports: Exports) -> None:
    with exports.database.transaction() as session:
        shop = make_shop(session)
        place(session, shop, make_product(session, shop))
    counts = {}
    for side, user_id in (("buyer", shop.buyer.id), ("vendor", shop.vendor.id)):
        _, archive = exports.run(user_id)
        document = json.loads(archive.read("orders.json"))
        counts[side] = [len(document[table]) for table in ("orders", "order_items", "order_events")]

    assert counts == {"buyer": [1, 1, 1], "vendor": [0, 0, 0]}


def test_archive_leaves_secrets_and_other_people_out(exports: Exports) -> None:
    person, other = exports.person(), exports.person()
    for user_id in (person, other):
        answer = exports.client.post(
            "/api/users/me/addresses",
            json={"hostel": f"Hall of {user_id}"},
            headers=exports.bearer(user_id),
        )
        assert answer.status_code == 201
    _, archive = exports.run(person)
    content = "".join(archive.read(name).decode() for name in archive.namelist())
    assert f"Hall of {person}" in content
    assert f"Hall of {other}" not in content
    assert '"nonce"' not in content


def test_columns_that_are_left_out_exist() -> None:
    for table, names in archive_module._LEFT_OUT.items():
        assert names <= {column.name for column in metadata.tables[table].columns}


def test_archive_shows_own_blocks_only(exports: Exports) -> None:
    person, other = exports.person(), exports.person()
    with exports.database.transaction() as session:
        session.add(ChatBlock(blocker_id=person, blocked_id=other, created_at=NOW))
    documents = []
    for user_id in (person, other):
        _, archive = exports.run(user_id)
        documents.append(json.loads(archive.read("chat.json"))["chat_blocks"])
    assert [len(rows) for rows in documents] == [1, 0]


def test_second_export_waits_for_the_first(exports: Exports) -> None:
    person = exports.person()
    assert exports.request(person).status_code == 201
    refused = assert_problem(exports.request(person), 409, "CONCURRENCY_CONFLICT")
    assert refused["reason"] == "export-in-progress"
    assert exports.request(exports.person()).status_code == 201


def test_job_begins_anew_after_a_crash_with_the_same_passphrase(exports: Exports) -> None:
    person = exports.person()
    made = exports.request(person).json["data"]
    exports.prepare(made["id"])  # a crash before the last phase
    assert exports.status(person) == "processing"
    exports.prepare(made["id"])()
    assert exports.open(made["id"], made["passphrase"]).read("profile.json")
    exports.prepare(made["id"])()
    assert exports.open(made["id"], made["passphrase"]).read("profile.json")
    with exports.database.reading() as session:
        assert session.scalar(select(PrivacyExport.nonce).where(PrivacyExport.id == UUID(made["id"]))) is None


def test_unavailable_storage_leaves_the_export_in_progress(exports: Exports) -> None:
    person = exports.person()
    made = exports.request(person).json["data"]

    exports.storage.fails = True
    with pytest.raises(ProviderUnavailableError):
        exports.prepare(made["id"])
    exports.storage.fails = False
    refused = exports.get(f"/{made['id']}/artifact", person)
    assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "export-not-available"
    exports.prepare(made["id"])()
    assert exports.status(person) == "ready"


def test_full_disk_leaves_the_export_in_progress(exports: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    person = exports.person()
    made = exports.request(person).json["data"]
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "w+b"))  # noqa: SIM115, PTH123
        with pytest.raises(OSError, match="No space left"):
            exports.prepare(made["id"])
    assert exports.status(person) == "processing"
    assert not exports.storage.objects

    exports.prepare(made["id"])()

    assert exports.status(person) == "ready"
    exports.open(made["id"], made["passphrase"]).testzip()


def test_archive_expires_and_is_deleted(exports: Exports, clock: MovableClock) -> None:
    person = exports.person()
    export_id, _ = exports.run(person)
    clock.now = NOW + LIFETIME
    assert exports.get(f"/{export_id}/artifact", person).status_code == 409
    exports.database.in_transaction(expire_exports, now=clock.now)
    bucket = exports.services.settings.s3_private_bucket
    delete_due_documents(
        exports.database, exports.storage, bucket=bucket, now=clock.now + timedelta(seconds=1)
    )
    assert not [key for key in exports.storage.objects if key.startswith("exports/")]
    assert exports.get("", person).json["data"][0]["status"] == "expired"
    assert exports.request(person).status_code == 201


def test_late_export_fails_with_a_notification(exports: Exports, clock: MovableClock) -> None:
    person = exports.person()
    made = exports.request(person).json["data"]
    exports.database.in_transaction(expire_exports, now=NOW + DEADLINE)
    exports.prepare(made["id"])()
    assert exports.status(person) == "failed"
    listed = exports.client.get("/api/notifications", headers=exports.bearer(person)).json["data"]
    assert "export_failed" in [row["type"] for row in listed]


def test_archives_of_others_are_not_found(exports: Exports) -> None:
    export_id, _ = exports.run(exports.person())
    for unknown in (export_id, str(uuid4())):
        assert_problem(exports.get(f"/{unknown}/artifact", exports.person()), 404, "RESOURCE_NOT_FOUND")
    assert exports.client.post(PATH).status_code == 401
