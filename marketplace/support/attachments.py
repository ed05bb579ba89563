"""Attachments of tickets: uploaded to the storage by clients, then checked and attached to a message."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.errors import UnsupportedMediaTypeError, ValidationError
from marketplace.media import documents
from marketplace.media.documents import AnnouncedFile, SignedUpload
from marketplace.providers.storage import ObjectStorage
from marketplace.support import texts

MAX_BYTES = 10 * 1024 * 1024
CONTENT_TYPES = tuple(sorted(documents.SUFFIXES))
MAX_UPLOADS_PER_DAY = 50
# A thread is read on bad networks, so its links live longer than links to identity documents.
LINK_SECONDS = 600
_FOLDER = "support"
_PARAMETER = "attachmentUrl"


def start_upload(
    session: Session,
    storage: ObjectStorage,
    *,
    bucket: str,
    owner_id: UUID,
    announced: AnnouncedFile,
    now: datetime,
) -> SignedUpload:
    """Start the upload of an attachment directly to the storage.

    :param bucket: the private bucket
    :raises LimitReachedError: the person has started ``MAX_UPLOADS_PER_DAY`` uploads in 24 hours
    """
    return documents.start_signed_upload(
        session,
        storage,
        bucket=bucket,
        folder=_FOLDER,
        owner_id=owner_id,
        announced=announced,
        daily_limit=MAX_UPLOADS_PER_DAY,
        now=now,
    )


def check_upload(
    database: Database,
    storage: ObjectStorage,
    *,
    bucket: str,
    owner_id: UUID,
    attachment_url: str,
    now: datetime,
) -> UUID:
    """Check an uploaded attachment: size, hash, type and content.

    :param bucket: the private bucket
    :return: the document's id for ``claim_upload``
    :raises ValidationError: the upload is unknown, missing, or differs from the announced file
    :raises ProviderUnavailableError: the storage failed
    """
    with database.reading() as session:
        document = documents.find_signed_upload(
            session, document_url=attachment_url, folder=_FOLDER, owner_id=owner_id, now=now
        )
    if document is None:
        raise ValidationError.of(_PARAMETER, texts.ATTACHMENT_UNKNOWN)
    try:
        is_as_announced = documents.check_signed_upload(storage, bucket=bucket, document=document)
    except (UnsupportedMediaTypeError, ValidationError) as error:
        raise ValidationError.of(_PARAMETER, str(error)) from error
    if is_as_announced is None:
        raise ValidationError.of(_PARAMETER, texts.ATTACHMENT_MISSING)
    if not is_as_announced:
        raise ValidationError.of(_PARAMETER, texts.ATTACHMENT_DIFFERS)
    return document.id


def claim_upload(session: Session, *, document_id: UUID, now: datetime) -> None:
    """Use a checked upload in a message.

    :raises ValidationError: the upload was used or deleted meanwhile
    """
    if not documents.claim_signed_upload(session, document_id=document_id, now=now):
        raise ValidationError.of(_PARAMETER, texts.ATTACHMENT_UNKNOWN)
