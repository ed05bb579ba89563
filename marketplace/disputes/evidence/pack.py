"""The evidence pack of a dispute: a ZIP with a summary, the facts and all files, to send to a bank."""

import json
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import IO, Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.disputes import texts
from marketplace.disputes.cases import ensure_not_party
from marketplace.disputes.evidence import files
from marketplace.disputes.evidence.facts import DisputeFacts, collect_facts
from marketplace.disputes.models import Dispute, DisputeEvidence
from marketplace.infra.db import Database
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import found
from marketplace.media import documents
from marketplace.media.models import PrivateDocument
from marketplace.orders.models import Order
from marketplace.payments.chargebacks.queries import OrderChargeback, list_chargebacks_of_order
from marketplace.providers.storage import ObjectStorage

MAX_FILE_BYTES = 200 * 1024 * 1024
LIFETIME = timedelta(hours=24)
_FOLDER = "evidence-packs"


@dataclass(frozen=True)
class PackedFile:
    """A file of evidence and its name in the pack; none for a file that is left out because of the size."""

    evidence: DisputeEvidence
    key: str
    name: str | None


@dataclass(frozen=True)
class PackContent:
    """The content of an evidence pack."""

    dispute: Dispute
    order: Order
    chargebacks: Sequence[OrderChargeback]
    facts: DisputeFacts
    files: Sequence[PackedFile]


@dataclass(frozen=True)
class StoredPack:
    """A stored pack with a link of a minute."""

    url: str
    byte_count: int
    sha256: str
    expires_at: datetime


def collect_pack(session: Session, *, dispute_id: UUID, act: Act) -> PackContent:
    """Collect the content of a dispute's pack, and record the access.

    :raises NotFoundError: the dispute does not exist
    :raises ConflictOfInterestError: the officer is a party
    """
    dispute = found(session.get(Dispute, dispute_id), texts.DISPUTE_NOT_FOUND)
    ensure_not_party(dispute, act)
    evidence = files.list_evidence(session, dispute_id=dispute_id, role=None)
    documents_of_files = session.scalars(
        select(PrivateDocument).where(PrivateDocument.id.in_([row.document_id for row in evidence]))
    )
    keys = {document.id: document.key for document in documents_of_files}
    record_audit_entry(
        session,
        act=act,
        action="dispute.evidence_pack",
        target_type="dispute",
        target_id=str(dispute.id),
    )
    return PackContent(
        dispute,
        session.get_one(Order, dispute.order_id),
        list_chargebacks_of_order(session, order_id=dispute.order_id),
        collect_facts(session, dispute=dispute),
        _name_files(evidence, keys),
    )


def _name_files(evidence: Sequence[DisputeEvidence], keys: dict[UUID, str]) -> list[PackedFile]:
    packed, total = [], 0
    for number, row in enumerate(evidence, 1):
        key = keys[row.document_id]
        suffix = key.rpartition(".")[2]
        fits = total + row.byte_count <= MAX_FILE_BYTES
        total += row.byte_count if fits else 0
        name = f"evidence/{number:02d}-{row.sent_by}-{row.kind}.{suffix}" if fits else None
        packed.append(PackedFile(row, key, name))
    return packed


def store_pack(
    database: Database,
    storage: ObjectStorage,
    *,
    private_bucket: str,
    public_bucket: str,
    content: PackContent,
    summary: bytes,
    now: datetime,
) -> StoredPack:
    """Build the ZIP on disk, store it for ``LIFETIME``, and return a link.

    :param summary: the summary as PDF
    :raises ProviderUnavailableError: the storage failed
    """
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("summary.pdf", summary)
            archive.writestr("facts.json", json.dumps(describe_facts(content), indent=2, ensure_ascii=False))
            for packed in content.files:
                if packed.name is not None:
                    _add(
                        archive,
                        storage,
                        private_bucket,
                        packed.key,
                        packed.name,
                        max_bytes=packed.evidence.byte_count,
                    )
            for key in [key for listing in content.facts.listings for key in listing.image_keys]:
                name = f"listing/{key.rpartition('/')[2]}"
                _add(archive, storage, public_bucket, key, name, max_bytes=files.MAX_IMAGE_BYTES)
        checked = documents.CheckedFile(file, "application/zip", "zip")
        document_id = documents.store_file(
            database, storage, bucket=private_bucket, folder=_FOLDER, checked=checked, now=now
        )
        byte_count, sha256 = checked.byte_count, checked.sha256
    with database.transaction() as session:
        documents.complete_upload(session, document_id=document_id)
        documents.release_document(session, document_id=document_id, keep_until=now + LIFETIME)
        url = documents.document_link(session, storage, bucket=private_bucket, document_id=document_id)
    return StoredPack(url, byte_count, sha256, now + timedelta(seconds=documents.LINK_SECONDS))


def _add(
    archive: zipfile.ZipFile, storage: ObjectStorage, bucket: str, key: str, name: str, *, max_bytes: int
) -> None:
    """Copy an object into the archive in parts. The files are compressed already."""
    entry: IO[bytes]
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
        storage.download(bucket=bucket, key=key, into=entry, max_bytes=max_bytes)


def describe_facts(content: PackContent) -> dict[str, Any]:
    """Describe the facts of a pack as JSON."""
    facts = content.facts
    return {
        "dispute": content.dispute.number,
        "order": content.order.number,
        "trail": [
            {"at": iso(event.at), "trigger": event.trigger, "actor": event.actor, "note": event.note}
            for event in facts.trail
        ],
        "wrongPins": facts.wrong_pins,
        "pinDeliveries": [_json(asdict(delivery)) for delivery in facts.pin_deliveries],
        "messages": [_json(asdict(message)) for message in facts.messages],
        "listings": [_json(asdict(listing)) for listing in facts.listings],
        "files": [
            {
                "name": packed.name,
                "sentBy": packed.evidence.sent_by,
                "kind": packed.evidence.kind,
                "note": packed.evidence.note,
                "sha256": packed.evidence.sha256,
                "bytes": packed.evidence.byte_count,
                "sentAt": iso(packed.evidence.created_at),
            }
            for packed in content.files
        ],
    }


def _json(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: iso(value) if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value
        for name, value in values.items()
    }
