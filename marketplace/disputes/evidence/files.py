"""Evidence files of the parties: photos, videos and documents in the private bucket, sealed at a due time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import IO
from uuid import UUID

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.disputes import texts
from marketplace.disputes.cases import ensure_not_party, lock_case, notify_party, party_role, record_event
from marketplace.disputes.models import Dispute, DisputeEvidence
from marketplace.disputes.queries import ensure_reader
from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.infra.imaging.formats import FORMATS, RECORDING_CONTAINERS, detect_container, detect_format
from marketplace.kernel.errors import (
    ConflictError,
    LimitReachedError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    found,
)
from marketplace.media import documents
from marketplace.orders.transitions import Actor
from marketplace.providers.storage import ObjectStorage

KINDS = ("unboxing", "photo", "waybill", "receipt", "other")
EVIDENCE_TIME = timedelta(days=5)
MAX_FILES_PER_SIDE = 20
MAX_FILES_PER_DAY = 60
MAX_NOTE_LENGTH = 1_000
_MEGABYTE = 1024 * 1024
MAX_IMAGE_BYTES, MAX_PDF_BYTES, MAX_VIDEO_BYTES = 5 * _MEGABYTE, 10 * _MEGABYTE, 50 * _MEGABYTE
_FOLDER = "evidence"
_VIDEO_TYPES = tuple(kind.video_type for kind in RECORDING_CONTAINERS.values() if kind.video_type)
CONTENT_TYPES = (documents.PDF, *(kind.content_type for kind in FORMATS.values()), *_VIDEO_TYPES)


class EvidenceSealedError(ConflictError):
    """The time for evidence is over, or the dispute has ended."""

    reason = "evidence-sealed"


@dataclass(frozen=True)
class StoredFile:
    """A checked and stored file of evidence that no dispute shows yet."""

    document_id: UUID
    poster_id: UUID | None
    content_type: str
    byte_count: int
    sha256: str
    duration_ms: int | None


def sealed_at(created_at: datetime) -> datetime:
    """Return the time at which the evidence of a dispute is sealed.

    :param created_at: the opening of the dispute
    """
    return created_at + EVIDENCE_TIME


def store_evidence(
    database: Database,
    storage: ObjectStorage,
    *,
    bucket: str,
    dispute_id: UUID,
    caller: Caller,
    file: IO[bytes],
    now: datetime,
) -> StoredFile:
    """Check and store a file of a party in several phases; ``attach_evidence`` is the last phase.

    Pictures are re-encoded without metadata. Videos and PDF documents are stored as they are, in parts.

    :param bucket: the private bucket
    :param file: an open file with a file descriptor
    :raises NotFoundError: the caller is no party
    :raises EvidenceSealedError: the time for evidence is over, or the dispute has ended
    :raises LimitReachedError: the caller has sent the maximum number of files
    :raises PayloadTooLargeError: the file exceeds the limit of the format
    :raises UnsupportedMediaTypeError: the file has none of ``CONTENT_TYPES``
    :raises ValidationError: the file is damaged, too complex, or has active content
    :raises ProviderUnavailableError: the storage failed
    """
    with database.transaction() as session:
        dispute = found(session.get(Dispute, dispute_id), texts.DISPUTE_NOT_FOUND)
        _ensure_takes_evidence(session, dispute, party_role(dispute, caller), now)
    checked = _check(file)
    store = partial(
        documents.store_file,
        database,
        storage,
        bucket=bucket,
        folder=_FOLDER,
        owner_id=caller.id,
        now=now,
    )
    document_id = store(checked=checked, daily_limit=MAX_FILES_PER_DAY)
    poster_id = None
    if checked.poster is not None:
        poster_id = store(checked=documents.CheckedFile(checked.poster, "image/jpeg", "jpg"))
    return StoredFile(
        document_id,
        poster_id,
        checked.content_type,
        checked.byte_count,
        checked.sha256,
        checked.duration_ms,
    )


def _check(file: IO[bytes]) -> documents.CheckedFile:
    head = documents.read_head(file)
    if detect_format(head) is not None:
        limit = MAX_IMAGE_BYTES
    elif detect_container(head) is not None:
        limit = MAX_VIDEO_BYTES
    elif head.startswith(b"%PDF-"):
        limit = MAX_PDF_BYTES
    else:
        raise UnsupportedMediaTypeError(texts.EVIDENCE_FORMATS)
    size = file.seek(0, 2)
    if size > limit:
        raise PayloadTooLargeError(texts.EVIDENCE_TOO_LARGE.format(limit=limit // _MEGABYTE))
    checked = documents.check_file(file)
    if checked.content_type not in CONTENT_TYPES:
        raise UnsupportedMediaTypeError(texts.EVIDENCE_FORMATS)
    return checked


def _ensure_takes_evidence(session: Session, dispute: Dispute, role: str, now: datetime) -> None:
    _ensure_unsealed(dispute, now)
    count = session.scalar(
        select(func.count())
        .select_from(DisputeEvidence)
        .where(DisputeEvidence.dispute_id == dispute.id, DisputeEvidence.sent_by == role)
    )
    if (count or 0) >= MAX_FILES_PER_SIDE:
        raise LimitReachedError(texts.TOO_MUCH_EVIDENCE.format(limit=MAX_FILES_PER_SIDE))


def _ensure_unsealed(dispute: Dispute, now: datetime) -> None:
    if dispute.resolved_at is not None or now >= sealed_at(dispute.created_at):
        raise EvidenceSealedError(texts.EVIDENCE_SEALED)


def attach_evidence(
    session: Session,
    *,
    dispute_id: UUID,
    caller: Caller,
    stored: StoredFile,
    kind: str,
    note: str | None,
    now: datetime,
) -> DisputeEvidence:
    """Show a stored file in a dispute, and notify the other side at most once a day.

    :param kind: one of ``KINDS``
    :raises EvidenceSealedError: the time for evidence ended during the upload
    :raises LimitReachedError: other files of the caller were faster
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    role = party_role(dispute, caller)
    _ensure_takes_evidence(session, dispute, role, now)
    for document_id in (stored.document_id, stored.poster_id):
        if document_id is not None:
            documents.keep_document(session, document_id=document_id)
    evidence = DisputeEvidence(
        dispute_id=dispute.id, sent_by=role, kind=kind, note=note, created_at=now, **vars(stored)
    )
    session.add(evidence)
    session.flush()
    record_event(session, dispute, "evidence_added", Actor(role, caller.id), note=kind, now=now)
    notify_party(
        session,
        dispute,
        order,
        user_id=dispute.vendor_user_id if role == "buyer" else dispute.buyer_id,
        title=texts.EVIDENCE_ADDED_TITLE,
        body=texts.EVIDENCE_ADDED_BODY,
        cause=f"evidence:{role}:{now:%Y-%m-%d}",
        now=now,
    )
    return evidence


def edit_evidence(
    session: Session,
    *,
    dispute_id: UUID,
    evidence_id: UUID,
    caller: Caller,
    kind: str,
    note: str | None,
    now: datetime,
) -> DisputeEvidence:
    """Change kind and note of the caller's evidence.

    :raises NotFoundError: the caller sent no such evidence
    :raises EvidenceSealedError: the time for evidence is over, or the dispute has ended
    """
    evidence = _lock_own(session, dispute_id, evidence_id, caller, now)
    evidence.kind, evidence.note = kind, note
    session.flush()
    return evidence


def remove_evidence(
    session: Session, *, dispute_id: UUID, evidence_id: UUID, caller: Caller, now: datetime
) -> None:
    """Remove the caller's evidence. The file is deleted soon.

    :raises NotFoundError: the caller sent no such evidence
    :raises EvidenceSealedError: the time for evidence is over, or the dispute has ended
    """
    evidence = _lock_own(session, dispute_id, evidence_id, caller, now)
    session.delete(evidence)
    session.flush()
    for document_id in (evidence.document_id, evidence.poster_id):
        if document_id is not None:
            documents.release_document(session, document_id=document_id, keep_until=now)
    dispute = session.get_one(Dispute, dispute_id)
    actor = Actor(evidence.sent_by, caller.id)
    record_event(session, dispute, "evidence_removed", actor, note=evidence.kind, now=now)


def set_visibility(
    session: Session, *, dispute_id: UUID, evidence_id: UUID, is_private: bool, act: Act
) -> DisputeEvidence:
    """Hide evidence from the other side, or show the evidence again, as staff.

    :raises NotFoundError: the dispute has no such evidence
    :raises ConflictOfInterestError: the officer is a party
    """
    dispute, _ = lock_case(session, dispute_id=dispute_id)
    ensure_not_party(dispute, act)
    evidence = _find(session, dispute_id, evidence_id)
    record_audit_entry(
        session,
        act=act,
        action="dispute.evidence_visibility",
        target_type="dispute",
        target_id=str(dispute.id),
        before={"evidenceId": str(evidence.id), "isPrivate": evidence.is_private},
        after={"evidenceId": str(evidence.id), "isPrivate": is_private},
    )
    evidence.is_private = is_private
    session.flush()
    return evidence


@dataclass(frozen=True)
class EvidenceLinks:
    """Links of a minute to a file of evidence."""

    url: str
    poster_url: str | None
    expires_at: datetime


def evidence_links(
    session: Session,
    storage: ObjectStorage,
    *,
    bucket: str,
    dispute_id: UUID,
    evidence_id: UUID,
    caller: Caller,
    now: datetime,
) -> EvidenceLinks:
    """Return links to a file that the caller may see.

    :raises NotFoundError: the caller may not see such evidence
    """
    role = ensure_reader(session, caller=caller, dispute_id=dispute_id).role
    evidence = _find(session, dispute_id, evidence_id)
    found(evidence if _is_visible(evidence, role) else None, texts.EVIDENCE_NOT_FOUND)
    links = [
        documents.document_link(session, storage, bucket=bucket, document_id=document_id)
        for document_id in (evidence.document_id, evidence.poster_id)
        if document_id is not None
    ]
    expires_at = now + timedelta(seconds=documents.LINK_SECONDS)
    return EvidenceLinks(links[0], links[1] if len(links) > 1 else None, expires_at)


def list_evidence(session: Session, *, dispute_id: UUID, role: str | None) -> Sequence[DisputeEvidence]:
    """List the evidence of a dispute from the first file.

    :param role: the side that reads, which does not see private evidence of the other side; none for staff
    """
    query = select(DisputeEvidence).where(DisputeEvidence.dispute_id == dispute_id)
    if role is not None:
        query = query.where(or_(DisputeEvidence.sent_by == role, ~DisputeEvidence.is_private))
    return session.scalars(
        query.order_by(DisputeEvidence.id), execution_options={"populate_existing": True}
    ).all()


def _is_visible(evidence: DisputeEvidence, role: str | None) -> bool:
    return role is None or evidence.sent_by == role or not evidence.is_private


def _find(session: Session, dispute_id: UUID, evidence_id: UUID) -> DisputeEvidence:
    evidence = session.scalar(
        select(DisputeEvidence).where(
            DisputeEvidence.id == evidence_id, DisputeEvidence.dispute_id == dispute_id
        ),
        execution_options={"populate_existing": True},
    )
    return found(evidence, texts.EVIDENCE_NOT_FOUND)


def _lock_own(
    session: Session, dispute_id: UUID, evidence_id: UUID, caller: Caller, now: datetime
) -> DisputeEvidence:
    dispute, _ = lock_case(session, dispute_id=dispute_id)
    role = party_role(dispute, caller)
    evidence = _find(session, dispute_id, evidence_id)
    own = found(evidence if evidence.sent_by == role else None, texts.EVIDENCE_NOT_FOUND)
    _ensure_unsealed(dispute, now)
    return own
