"""Private documents: student IDs and files of messages, checked by content and kept in the private bucket.

The row is written before the object is stored, and stays until the object is deleted.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from marketplace.infra import texts as infra_texts
from marketplace.infra.batches import process_each
from marketplace.infra.db import Database
from marketplace.infra.imaging.formats import (
    FORMATS,
    HEADER_BYTES,
    RECORDING_CONTAINERS,
    detect_container,
    detect_format,
)
from marketplace.infra.imaging.sandboxed_decode import check_pdf, check_recording, re_encode
from marketplace.kernel.errors import (
    LimitReachedError,
    UnsupportedMediaTypeError,
    ValidationError,
    found,
)
from marketplace.media import texts
from marketplace.media.models import PrivateDocument
from marketplace.providers.storage import ObjectStorage

MAX_BYTES = 10 * 1024 * 1024
MAX_UPLOADS_PER_DAY = 10
PDF = "application/pdf"
LINK_SECONDS = 60
UPLOAD_SECONDS = 3_600
# The suffix of a key by content type, for files that clients announce.
SUFFIXES = {
    PDF: "pdf",
    **{kind.content_type: kind.suffix for kind in FORMATS.values()},
    **{kind.audio_type: kind.suffix for kind in RECORDING_CONTAINERS.values()},
    **{kind.video_type: kind.suffix for kind in RECORDING_CONTAINERS.values() if kind.video_type},
}
# An upload that no application uses is deleted after this time.
UNUSED_GRACE_PERIOD = timedelta(hours=24)
_FOLDER = "student-ids"
_SIDE_PIXELS = 1600
_MAX_DELETIONS_PER_RUN = 500


@dataclass(frozen=True)
class CheckedFile:
    """A file that was checked by its content and can be stored.

    :ivar content: bytes of a re-encoded picture; otherwise the open file, which is stored as it is
    :ivar poster: the first frame of a video as JPEG
    """

    content: bytes | IO[bytes]
    content_type: str
    suffix: str
    duration_ms: int | None = None
    poster: bytes | None = None

    @property
    def byte_count(self) -> int:
        """The size of the content."""
        if isinstance(self.content, bytes):
            return len(self.content)
        return os.fstat(self.content.fileno()).st_size

    @property
    def sha256(self) -> str:
        """The hash of the content, in hex."""
        if isinstance(self.content, bytes):
            return hashlib.sha256(self.content).hexdigest()
        self.content.seek(0)
        return hashlib.file_digest(self.content, "sha256").hexdigest()  # type: ignore[arg-type]


def check_document(file: IO[bytes]) -> CheckedFile:
    """Check a PDF document or picture by its content. Pictures are re-encoded, which removes metadata.

    :param file: an open file with a file descriptor
    :raises UnsupportedMediaTypeError: the file is neither a PDF document nor a supported picture
    :raises ValidationError: the file is damaged, too complex, or has active content
    """
    head = read_head(file)
    if head.startswith(b"%PDF-"):
        check_pdf(file, name="file")
        return CheckedFile(file, PDF, "pdf")
    if detect_format(head) is None:
        raise UnsupportedMediaTypeError(infra_texts.DOCUMENT_UNSUPPORTED_FORMAT.format(field="file"))
    picture = re_encode(file, name="file", sizes=(_SIDE_PIXELS,))
    best = picture.renditions[-1]
    return CheckedFile(best.content, best.content_type, best.content_type.rpartition("/")[2])


def check_file(file: IO[bytes]) -> CheckedFile:
    """Check a document, picture or recording by its content. Errors are those of ``check_document``."""
    if detect_container(read_head(file)) is None:
        return check_document(file)
    recording = check_recording(file, name="file")
    return CheckedFile(
        file, recording.content_type, recording.suffix, recording.duration_ms, recording.poster
    )


def upload_document(
    database: Database, storage: ObjectStorage, *, bucket: str, owner_id: UUID, file: IO[bytes], now: datetime
) -> UUID:
    """Check and store a document in several phases; ``complete_upload`` is the last phase.

    :param bucket: the private bucket
    :param file: an open file with a file descriptor
    :return: id of the document
    :raises UnsupportedMediaTypeError: the file is neither a PDF document nor a supported picture
    :raises ValidationError: the file is damaged, too complex, or has active content
    :raises LimitReachedError: the person has uploaded ``MAX_UPLOADS_PER_DAY`` documents in 24 hours
    :raises ProviderUnavailableError: the storage failed
    """
    checked = check_document(file)
    return store_file(
        database,
        storage,
        bucket=bucket,
        folder=_FOLDER,
        checked=checked,
        owner_id=owner_id,
        daily_limit=MAX_UPLOADS_PER_DAY,
        now=now,
    )


def store_file(
    database: Database,
    storage: ObjectStorage,
    *,
    bucket: str,
    folder: str,
    checked: CheckedFile,
    owner_id: UUID | None = None,
    daily_limit: int | None = None,
    now: datetime,
) -> UUID:
    """Store a checked file; ``keep_document`` or ``complete_upload`` is the last phase.

    :param bucket: the private bucket
    :param folder: the first part of the object's key
    :param daily_limit: uploads of the owner in 24 hours; none without a limit
    :return: id of the document
    :raises LimitReachedError: the owner has reached the limit
    :raises ProviderUnavailableError: the storage failed
    """
    key = f"{folder}/{uuid4()}.{checked.suffix}"
    document_id = database.in_transaction(
        _start_upload,
        owner_id=owner_id,
        key=key,
        content_type=checked.content_type,
        size=checked.byte_count,
        daily_limit=daily_limit,
        now=now,
    )
    if not isinstance(checked.content, bytes):
        checked.content.seek(0)
    storage.put(bucket=bucket, key=key, content=checked.content, content_type=checked.content_type)
    return document_id


def complete_upload(session: Session, *, document_id: UUID) -> str:
    """Make a document available after its object is stored.

    :return: the path, which an application names
    """
    path: str = session.execute(
        update(PrivateDocument)
        .where(PrivateDocument.id == document_id)
        .values(status="ready")
        .returning(PrivateDocument.key)
    ).scalar_one()
    return path


@dataclass(frozen=True)
class SignedUpload:
    """An upload that a client makes directly to the storage.

    :ivar upload_url: accepts the file by PUT with the announced type
    :ivar document_url: shows the document, and names the document in later requests
    """

    id: UUID
    upload_url: str
    document_url: str
    expires_at: datetime


@dataclass(frozen=True)
class AnnouncedFile:
    """A file that a client announces: type, size in bytes, and SHA-256 in hex."""

    content_type: str
    byte_count: int
    content_hash: str


def start_signed_upload(
    session: Session,
    storage: ObjectStorage,
    *,
    bucket: str,
    folder: str,
    owner_id: UUID,
    announced: AnnouncedFile,
    daily_limit: int,
    now: datetime,
) -> SignedUpload:
    """Start an upload of a person directly to the storage. An unused upload is deleted after a day.

    :param folder: the first part of the object's key
    :raises LimitReachedError: the person has started ``daily_limit`` uploads in 24 hours
    """
    _ensure_below_daily_limit(session, owner_id=owner_id, limit=daily_limit, now=now)
    key = f"{folder}/{uuid4()}.{SUFFIXES[announced.content_type]}"
    document = PrivateDocument(
        owner_id=owner_id,
        key=key,
        content_type=announced.content_type,
        byte_count=announced.byte_count,
        content_hash=announced.content_hash,
        status="pending",
        delete_after=now + UNUSED_GRACE_PERIOD,
        created_at=now,
    )
    session.add(document)
    session.flush()
    return SignedUpload(
        id=document.id,
        upload_url=storage.upload_link(
            bucket=bucket,
            key=key,
            seconds=UPLOAD_SECONDS,
            content_type=announced.content_type,
            byte_count=announced.byte_count,
        ),
        document_url=storage.signed_link(bucket=bucket, key=key, seconds=UPLOAD_SECONDS),
        expires_at=now + timedelta(seconds=UPLOAD_SECONDS),
    )


def find_signed_upload(
    session: Session, *, document_url: str, folder: str, owner_id: UUID, now: datetime
) -> PrivateDocument | None:
    """Return the unused upload of a person by the URL that ``start_signed_upload`` returned."""
    match = re.search(
        rf"/({re.escape(folder)}/[0-9a-f-]{{36}}\.[a-z0-9]{{2,5}})$", urlsplit(document_url).path
    )
    if match is None:
        return None
    return session.scalar(
        select(PrivateDocument).where(
            PrivateDocument.key == match[1],
            PrivateDocument.owner_id == owner_id,
            PrivateDocument.delete_after > now,
            PrivateDocument.status != "deleting",
        )
    )


def check_signed_upload(storage: ObjectStorage, *, bucket: str, document: PrivateDocument) -> bool | None:
    """Compare the stored object with the announced size, hash and type, and check the content.

    :return: whether the object is as announced; none for a missing object
    :raises ValidationError: the file is damaged, too complex, or has active content
    :raises UnsupportedMediaTypeError: the file has none of the supported formats
    :raises ProviderUnavailableError: the storage failed
    """
    with tempfile.TemporaryFile() as file:
        if not storage.download(bucket=bucket, key=document.key, into=file, max_bytes=document.byte_count):
            return None
        file.flush()
        file.seek(0)
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(file.read()).hexdigest()
        if (size, digest) != (document.byte_count, document.content_hash):
            return False
        return inspect_file(file) == document.content_type


def read_head(file: IO[bytes]) -> bytes:
    """Return the first bytes of a file, which show the format.

    :raises ValidationError: the file is empty
    """
    file.flush()
    head = os.pread(file.fileno(), HEADER_BYTES, 0)
    if not head:
        raise ValidationError.of("file", texts.DOCUMENT_EMPTY)
    return head


def inspect_file(file: IO[bytes]) -> str:
    """Check a document, picture or recording by its content, and return the content type.

    :raises UnsupportedMediaTypeError: the file has none of the supported formats
    :raises ValidationError: the file is damaged, too complex, or has active content
    """
    picture = detect_format(read_head(file))
    checked = check_file(file)
    return picture.content_type if picture is not None else checked.content_type


def claim_signed_upload(session: Session, *, document_id: UUID, now: datetime) -> bool:
    """Use a checked upload, and return whether the upload was still unused."""
    claimed = session.scalar(
        update(PrivateDocument)
        .where(
            PrivateDocument.id == document_id,
            PrivateDocument.delete_after > now,
            PrivateDocument.status != "deleting",
        )
        .values(status="ready", delete_after=None)
        .returning(PrivateDocument.id)
    )
    return claimed is not None


def keep_document(session: Session, *, document_id: UUID) -> None:
    """Make a stored document available, and keep the document from deletion."""
    session.execute(
        update(PrivateDocument)
        .where(PrivateDocument.id == document_id)
        .values(status="ready", delete_after=None)
    )


def claim_document(
    session: Session, *, path: str, owner_id: UUID, parameter: str, now: datetime
) -> PrivateDocument:
    """Lock an unused document of a person, and keep the document from deletion.

    :param parameter: the API field with the path, for errors
    :raises ValidationError: the person has no such unused document
    """
    document = session.scalar(
        select(PrivateDocument)
        .where(
            PrivateDocument.key == path,
            PrivateDocument.owner_id == owner_id,
            PrivateDocument.status == "ready",
            PrivateDocument.delete_after > now,
        )
        .with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    )
    if document is None:
        raise ValidationError.of(parameter, texts.DOCUMENT_NOT_UPLOADED)
    document.delete_after = None
    return document


def release_document(session: Session, *, document_id: UUID, keep_until: datetime) -> None:
    """Let a document be deleted after a time."""
    session.execute(
        update(PrivateDocument).where(PrivateDocument.id == document_id).values(delete_after=keep_until)
    )


def document_link(session: Session, storage: ObjectStorage, *, bucket: str, document_id: UUID) -> str:
    """Return a link of ``LINK_SECONDS`` seconds that downloads a document.

    :raises NotFoundError: the document was deleted
    """
    document = session.get(PrivateDocument, document_id)
    ready = document if document is not None and document.status == "ready" else None
    key = found(ready, texts.DOCUMENT_DELETED).key
    name = key.rpartition("/")[2]
    return storage.signed_link(bucket=bucket, key=key, seconds=LINK_SECONDS, download_name=name)


def delete_due_documents(database: Database, storage: ObjectStorage, *, bucket: str, now: datetime) -> int:
    """Delete the documents whose time has passed: first the object, then the row.

    Documents that cannot be deleted now are left to the next run.

    :return: the number of deleted documents
    """
    due = database.in_transaction(_mark_due_documents, now=now)
    return len(
        process_each(
            due,
            lambda document_id: _delete_document(
                database, storage, bucket=bucket, document_id=document_id, key=due[document_id]
            ),
            failure="document not deleted",
        )
    )


def erase_documents(
    database: Database, storage: ObjectStorage, *, bucket: str, document_ids: Sequence[UUID]
) -> int:
    """Delete documents now: first the object, then the row. Missing documents are ignored.

    :return: the number of deleted documents
    :raises ProviderUnavailableError: the storage failed; some documents are left
    """
    with database.reading() as session:
        rows = session.execute(
            select(PrivateDocument.id, PrivateDocument.key).where(PrivateDocument.id.in_(document_ids))
        )
        keys = {row.id: row.key for row in rows}
    for document_id, key in keys.items():
        _delete_document(database, storage, bucket=bucket, document_id=document_id, key=key)
    return len(keys)


def _mark_due_documents(session: Session, *, now: datetime) -> dict[UUID, str]:
    """Mark documents for deletion, so that no application can use them from now on."""
    due = session.scalars(
        select(PrivateDocument)
        .where(PrivateDocument.delete_after <= now)
        .order_by(PrivateDocument.delete_after)
        .limit(_MAX_DELETIONS_PER_RUN)
        .with_for_update(skip_locked=True)
    ).all()
    for document in due:
        document.status = "deleting"
    return {document.id: document.key for document in due}


def _delete_document(
    database: Database, storage: ObjectStorage, *, bucket: str, document_id: UUID, key: str
) -> None:
    storage.delete(bucket=bucket, key=key)
    with database.transaction() as session:
        session.execute(delete(PrivateDocument).where(PrivateDocument.id == document_id))


def _start_upload(
    session: Session,
    *,
    owner_id: UUID | None,
    key: str,
    content_type: str,
    size: int,
    daily_limit: int | None,
    now: datetime,
) -> UUID:
    if owner_id is not None and daily_limit is not None:
        _ensure_below_daily_limit(session, owner_id=owner_id, limit=daily_limit, now=now)
    document = PrivateDocument(
        owner_id=owner_id,
        key=key,
        content_type=content_type,
        byte_count=size,
        status="pending",
        delete_after=now + UNUSED_GRACE_PERIOD,
        created_at=now,
    )
    session.add(document)
    session.flush()
    return document.id


def _ensure_below_daily_limit(session: Session, *, owner_id: UUID, limit: int, now: datetime) -> None:
    recent = session.scalar(
        select(func.count())
        .select_from(PrivateDocument)
        .where(PrivateDocument.owner_id == owner_id, PrivateDocument.created_at > now - timedelta(days=1))
    )
    if (recent or 0) >= limit:
        raise LimitReachedError(texts.TOO_MANY_DOCUMENTS.format(limit=limit))
