"""Evidence over HTTP: files of the parties, facts of the service, and the pack for a bank."""

import hashlib
import io
import json
import tempfile
import zipfile
from dataclasses import replace
from functools import partial
from typing import IO, Any
from uuid import UUID, uuid4

import pytest
from pypdf import PdfReader

from marketplace.chat.send import MessageContent, send_to_store
from marketplace.disputes.evidence import files
from marketplace.disputes.models import DisputeEvidence
from marketplace.identity.models import Profile
from marketplace.media import documents
from marketplace.media.documents import delete_due_documents
from marketplace.media.models import PrivateDocument
from tests.support.audit_and_notifications import audit_of
from tests.support.dispute_parties import DISPUTES, Parties
from tests.support.finance import charge_of, dispute_charge
from tests.support.gateway import MovableClock
from tests.support.object_storage import InMemoryStorage
from tests.support.pdf_files import active_pdfs, plain_pdf
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, pin_of
from tests.support.recordings import make_video, make_voice_note
from tests.support.resource_usage import peak_memory
from tests.support.sample_images import decode_image, photo
from tests.support.shop_client import new_key

PRIVATE_BUCKET = "marketplace-private"
VIDEO = make_video()


def opened(senders: Parties) -> str:
    return senders.opened(senders.http.shipped())


def sent(senders: Parties, dispute_id: str, content: bytes, headers: Any = None, **fields: str) -> Any:
    answer = senders.send(dispute_id, content, headers, **fields)
    assert answer.status_code == 201, answer.json
    return answer.json["data"]


def listed(senders: Parties, dispute_id: str, headers: Any) -> list[str]:
    path = f"{DISPUTES}/{dispute_id}/evidence"
    return [row["id"] for row in senders.http.get(path, headers).json["data"]]


def links(senders: Parties, dispute_id: str, evidence_id: str, headers: Any) -> Any:
    return senders.http.get(f"{DISPUTES}/{dispute_id}/evidence/{evidence_id}", headers)


def stored(senders: Parties, storage: InMemoryStorage, evidence_id: str) -> list[bytes]:
    """Return the stored file and, of a video, the poster frame."""
    with senders.database.reading() as session:
        row = session.get_one(DisputeEvidence, UUID(evidence_id))
        ids = [found for found in (row.document_id, row.poster_id) if found is not None]
        return [storage.objects[session.get_one(PrivateDocument, found).key].content for found in ids]


class TestUpload:
    def test_picture_is_stored_without_metadata_and_shown_to_both_sides(
        self, senders: Parties, storage: InMemoryStorage
    ) -> None:
        dispute_id = opened(senders)
        evidence = sent(senders, dispute_id, photo(comment="Moremi Hall, room 12"), note="As it arrived.")
        [content] = stored(senders, storage, evidence["id"])
        assert b"Moremi Hall" not in content
        assert (evidence["sha256"], evidence["byteCount"]) == (
            hashlib.sha256(content).hexdigest(),
            len(content),
        )
        assert (evidence["sentBy"], evidence["kind"], evidence["note"]) == (
            "buyer",
            "photo",
            "As it arrived.",
        )
        for headers in (senders.buyer, senders.vendor, senders.officer):
            assert listed(senders, dispute_id, headers) == [evidence["id"]]
        assert senders.notified(senders.shop.vendor.id)[-1] == "There is new evidence"

    def test_video_is_stored_as_sent_with_a_poster_frame(
        self, senders: Parties, storage: InMemoryStorage
    ) -> None:
        dispute_id = opened(senders)
        evidence = sent(senders, dispute_id, VIDEO, senders.vendor, kind="unboxing")
        content, poster = stored(senders, storage, evidence["id"])
        assert content == VIDEO
        assert (evidence["contentType"], evidence["sha256"]) == (
            "video/mp4",
            hashlib.sha256(VIDEO).hexdigest(),
        )
        assert 900 <= evidence["durationMs"] <= 1100
        assert decode_image(poster).size == (320, 180)
        shown = links(senders, dispute_id, evidence["id"], senders.buyer).json["data"]
        assert shown["url"].endswith(".mp4")
        assert shown["posterUrl"].endswith(".jpg")

    def test_pdf_document_is_accepted(self, senders: Parties) -> None:
        evidence = sent(senders, opened(senders), plain_pdf(), kind="waybill")
        assert evidence["contentType"] == "application/pdf"

    @pytest.mark.parametrize(
        ("content", "status"),
        [
            (b"", 422),
            (b"MZ\x90\x00 program", 415),
            (b"<html><script>alert(1)</script></html>", 415),
            (make_voice_note(container="mp4", codec="aac"), 415),
            (VIDEO[:900], 422),
            (photo()[:400], 422),
            (
                next(iter(active_pdfs().values())),
                422,
            ),
            (plain_pdf() + bytes(files.MAX_PDF_BYTES), 413),
            (photo(40, 30) + bytes(files.MAX_IMAGE_BYTES), 413),
            (VIDEO + bytes(files.MAX_VIDEO_BYTES), 413),
        ],
        ids=[
            *("empty", "program", "page", "voice", "cut-video", "cut-picture", "script"),
            *("large-pdf", "large-picture", "large-video"),
        ],
    )
    def test_unacceptable_file_is_refused_and_leaves_nothing(
        self, senders: Parties, storage: InMemoryStorage, content: bytes, status: int
    ) -> None:
        dispute_id, puts = opened(senders), storage.puts
        answer = senders.send(dispute_id, content)
        assert answer.status_code == status, answer.json
        assert (listed(senders, dispute_id, senders.buyer), storage.puts) == ([], puts)

    def test_every_kind_of_active_pdf_is_refused(self, senders: Parties) -> None:
        dispute_id = opened(senders)
        for content in list(active_pdfs().values())[:6]:
            assert faults(senders.send(dispute_id, content)) == ["file"]

    def test_unknown_kind_is_named(self, senders: Parties) -> None:
        answer = senders.send(opened(senders), photo(), kind="rumour")
        assert faults(answer) == ["kind"]

    def test_storage_that_fails_leaves_no_evidence(self, senders: Parties, storage: InMemoryStorage) -> None:
        dispute_id = opened(senders)
        storage.fails = True
        assert_problem(senders.send(dispute_id, photo()), 502, "PROVIDER_UNAVAILABLE")
        assert listed(senders, dispute_id, senders.buyer) == []

    def test_side_sends_a_limited_number_of_files(
        self, senders: Parties, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "MAX_FILES_PER_SIDE", 1)
        dispute_id = opened(senders)
        sent(senders, dispute_id, photo(40, 30))
        refused = senders.send(dispute_id, photo(40, 30))
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "limit-reached"
        sent(senders, dispute_id, photo(40, 30), senders.vendor)

    def test_only_parties_send(self, senders: Parties) -> None:
        dispute_id = opened(senders)
        assert_problem(
            senders.send(dispute_id, photo(40, 30), senders.http.stranger), 404, "RESOURCE_NOT_FOUND"
        )
        assert_problem(senders.send(dispute_id, photo(40, 30), senders.officer), 403, "AUTH_FORBIDDEN")

    def test_restricted_buyer_sends_evidence(self, senders: Parties) -> None:
        dispute_id = opened(senders)
        with senders.database.transaction() as session:
            profile = session.get_one(Profile, senders.shop.buyer.id)
            profile.account_status, profile.status_reason = "restricted", "Under review"
        sent(senders, dispute_id, photo(40, 30))


class StreamingStorage(InMemoryStorage):
    """A storage that reads files in parts, and keeps only their size."""

    def put(self, *, content: bytes | IO[bytes], **_: Any) -> None:
        assert not isinstance(content, bytes)
        self.size = sum(len(part) for part in iter(partial(content.read, 64 * 1024), b""))


def test_large_video_is_never_held_in_memory(senders: Parties) -> None:
    storage = StreamingStorage()
    padding = 40 * 1024 * 1024
    with tempfile.TemporaryFile() as file:
        file.write(VIDEO)
        # Players skip a free box, so the file is still a video.
        file.write((padding + 8).to_bytes(4) + b"free")
        file.truncate(len(VIDEO) + 8 + padding)
        with peak_memory() as peak:
            checked = documents.check_file(file)
            documents.store_file(
                senders.database,
                storage,
                bucket=PRIVATE_BUCKET,
                folder="evidence",
                checked=replace(checked, poster=None),
                now=NOW,
            )
            assert len(checked.sha256) == 64
    assert storage.size == len(VIDEO) + 8 + padding
    assert peak.mebibytes < 4


class TestSealing:
    def test_own_evidence_is_edited_and_removed_before_the_due_time(
        self, senders: Parties, storage: InMemoryStorage
    ) -> None:
        dispute_id = opened(senders)
        evidence = sent(senders, dispute_id, VIDEO)
        path = f"{DISPUTES}/{dispute_id}/evidence/{evidence['id']}"
        body = {"kind": "unboxing", "note": "The seal was broken."}
        edited = senders.http.put(path, senders.buyer, body).json["data"]
        assert (edited["kind"], edited["note"]) == ("unboxing", "The seal was broken.")
        for headers in (senders.vendor, senders.http.stranger):
            assert_problem(senders.http.put(path, headers, body), 404, "RESOURCE_NOT_FOUND")
            assert_problem(senders.http.client.delete(path, headers=headers), 404, "RESOURCE_NOT_FOUND")
        with senders.database.reading() as session:
            row = session.get_one(DisputeEvidence, UUID(evidence["id"]))
            keys = [session.get_one(PrivateDocument, found).key for found in (row.document_id, row.poster_id)]
        assert senders.http.client.delete(path, headers=senders.buyer).status_code == 200
        assert listed(senders, dispute_id, senders.officer) == []
        delete_due_documents(senders.database, storage, bucket=PRIVATE_BUCKET, now=NOW)
        assert not storage.objects.keys() & set(keys)

    def test_evidence_is_sealed_at_the_due_time(self, senders: Parties, clock: MovableClock) -> None:
        dispute_id = opened(senders)
        evidence = sent(senders, dispute_id, photo(40, 30))
        clock.now = NOW + files.EVIDENCE_TIME
        path = f"{DISPUTES}/{dispute_id}/evidence/{evidence['id']}"
        for answer in (
            senders.send(dispute_id, photo(40, 30)),
            senders.http.put(path, senders.buyer, {"kind": "other"}),
            senders.http.client.delete(path, headers=senders.buyer),
        ):
            assert assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["reason"] == "evidence-sealed"
        assert listed(senders, dispute_id, senders.vendor) == [evidence["id"]]

    def test_evidence_is_sealed_by_the_ruling(self, senders: Parties) -> None:
        dispute_id = opened(senders)
        senders.rule(dispute_id, "release_vendor")
        refused = senders.send(dispute_id, photo(40, 30))
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "evidence-sealed"


class TestVisibility:
    def test_private_evidence_is_hidden_from_the_other_side_only(self, senders: Parties) -> None:
        dispute_id = opened(senders)
        evidence = sent(senders, dispute_id, photo(40, 30))
        path = f"{DISPUTES}/{dispute_id}/evidence/{evidence['id']}/visibility"
        for headers in (senders.buyer, senders.vendor, senders.http.officer("finance")):
            answer = senders.http.put(path, headers, {"isPrivate": True})
            assert_problem(answer, 403, "AUTH_FORBIDDEN")
        senders.http.put(path, senders.officer, {"isPrivate": True})
        assert listed(senders, dispute_id, senders.vendor) == []
        hidden = links(senders, dispute_id, evidence["id"], senders.vendor)
        assert_problem(hidden, 404, "RESOURCE_NOT_FOUND")
        for headers in (senders.buyer, senders.officer):
            assert listed(senders, dispute_id, headers) == [evidence["id"]]
            assert links(senders, dispute_id, evidence["id"], headers).status_code == 200
        senders.http.put(path, senders.officer, {"isPrivate": False})
        assert listed(senders, dispute_id, senders.vendor) == [evidence["id"]]
        actions = [entry["action"] for entry in audit_of(senders.database, dispute_id)]
        assert actions == ["dispute.evidence_visibility"] * 2

    def test_evidence_of_another_dispute_is_not_found(self, senders: Parties) -> None:
        first, second = opened(senders), opened(senders)
        evidence = sent(senders, first, photo(40, 30))
        for headers in (senders.buyer, senders.officer):
            assert_problem(links(senders, second, evidence["id"], headers), 404, "RESOURCE_NOT_FOUND")
        assert_problem(links(senders, first, str(uuid4()), senders.buyer), 404, "RESOURCE_NOT_FOUND")


def wrong_pin(senders: Parties, order_id: UUID) -> None:
    wrong = f"{(int(pin_of(order_id)) + 1) % 10**6:06d}"
    path = f"/api/orders/{order_id}/verify-code"
    senders.http.post(path, senders.vendor, {"pin": wrong}, key=new_key())


class TestFacts:
    def test_facts_have_trail_pins_messages_and_the_bought_listing(self, senders: Parties) -> None:
        order_id = senders.http.shipped()
        wrong_pin(senders, order_id)
        with senders.database.transaction() as session:
            send_to_store(
                session,
                sender_id=senders.shop.buyer.id,
                vendor_id=senders.shop.store_id,
                content=MessageContent("Where is the lamp?", order_id=order_id),
                now=NOW,
            )
        dispute_id = senders.opened(order_id)
        for headers in (senders.buyer, senders.vendor, senders.officer):
            facts = senders.http.get(f"{DISPUTES}/{dispute_id}/facts", headers).json["data"]
            triggers = [event["trigger"] for event in facts["trail"]]
            assert triggers == ["place", "pay", "accept", "ship", "wrong-pin", "dispute"]
            assert facts["wrongPins"] == 1
            assert [message["body"] for message in facts["messages"]] == ["Where is the lamp?"]
            [listing] = facts["listings"]
            assert listing["revision"] == listing["currentRevision"]
        stranger = senders.http.get(f"{DISPUTES}/{dispute_id}/facts", senders.http.stranger)
        assert_problem(stranger, 404, "RESOURCE_NOT_FOUND")


class TestPack:
    def test_pack_holds_summary_facts_and_files(self, senders: Parties, storage: InMemoryStorage) -> None:
        order_id = senders.http.shipped()
        wrong_pin(senders, order_id)
        dispute_id = senders.opened(order_id)
        evidence = sent(senders, dispute_id, VIDEO, kind="unboxing", note="The seal was broken.")
        with senders.database.transaction() as session:
            dispute_charge(session, charge_of(session, order_id))
        made = senders.act(dispute_id, "evidence-pack", senders.officer)
        assert made.status_code == 201, made.json
        key = made.json["data"]["url"].partition("marketplace-private/")[2].partition("?")[0]
        content = storage.objects[key].content
        assert made.json["data"]["sha256"] == hashlib.sha256(content).hexdigest()
        archive = zipfile.ZipFile(io.BytesIO(content))
        assert archive.testzip() is None
        assert archive.namelist()[:3] == ["summary.pdf", "facts.json", "evidence/01-buyer-unboxing.mp4"]
        assert archive.read("evidence/01-buyer-unboxing.mp4") == VIDEO
        facts = json.loads(archive.read("facts.json"))
        assert (facts["wrongPins"], facts["files"][0]["sha256"]) == (1, evidence["sha256"])
        summary = PdfReader(io.BytesIO(archive.read("summary.pdf")))
        text = " ".join(page.extract_text() for page in summary.pages)
        for words in (facts["dispute"], facts["order"], "Chargeback", "The seal was broken.", "wrong-pin"):
            assert words in text

    def test_pack_is_for_officers_only(self, senders: Parties) -> None:
        dispute_id = opened(senders)
        for headers in (senders.buyer, senders.http.officer("finance")):
            assert_problem(senders.act(dispute_id, "evidence-pack", headers), 403, "AUTH_FORBIDDEN")
        missing = senders.act(str(uuid4()), "evidence-pack", senders.officer)
        assert_problem(missing, 404, "RESOURCE_NOT_FOUND")

    def test_files_above_the_limit_are_listed_but_left_out(
        self, senders: Parties, storage: InMemoryStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("marketplace.disputes.evidence.pack.MAX_FILE_BYTES", len(VIDEO))
        dispute_id = opened(senders)
        for _ in range(2):
            sent(senders, dispute_id, VIDEO)
        url = senders.act(dispute_id, "evidence-pack", senders.officer).json["data"]["url"]
        content = storage.objects[url.partition("marketplace-private/")[2].partition("?")[0]].content
        archive = zipfile.ZipFile(io.BytesIO(content))
        assert [name for name in archive.namelist() if name.startswith("evidence/")] == [
            "evidence/01-buyer-photo.mp4"
        ]
        assert [row["name"] for row in json.loads(archive.read("facts.json"))["files"]][1] is None
