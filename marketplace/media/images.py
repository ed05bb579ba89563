"""Uploaded images: stored in several sizes under a hash of the content, and shown by listings.

Every stored object belongs to a row. The row is written before the objects are stored, and stays until the objects
are deleted (``image_cleanup``).
"""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import IO, Any
from uuid import UUID

from sqlalchemy import case, select, text, update
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.infra.imaging.formats import Picture, Rendition
from marketplace.infra.imaging.sandboxed_decode import re_encode
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError
from marketplace.media import texts
from marketplace.media.models import Image
from marketplace.providers.storage import IMMUTABLE_CACHE_CONTROL, ObjectStorage, StoredObject, put_all

MAX_BYTES = 5 * 1024 * 1024
PRODUCT = "product"
AVATAR = "avatar"
REVIEW = "review"
CHAT = "chat"
# Purposes of images that any user may upload.
USER_PURPOSES = (AVATAR, REVIEW, CHAT)
_FOLDERS = {PRODUCT: "products", AVATAR: "avatars", REVIEW: "reviews", CHAT: "chat"}
RENDITION_SIZES = (320, 800, 1600)
"""The longest sides in pixels: for cards, for the product page, and for zooming."""
DETAIL_IMAGE_SIZE = RENDITION_SIZES[1]
# Increase when renditions are made differently: stored objects are cached forever, so the keys must change.
_RENDITION_VERSION = 1


class ImageUploadExpiredError(ConflictError):
    """The upload took too long, so its image was removed."""

    reason = "image-upload-expired"


def upload_image(
    database: Database,
    storage: ObjectStorage,
    *,
    bucket: str,
    owner_id: UUID,
    file: IO[bytes],
    sha256: str,
    now: datetime,
    purpose: str = PRODUCT,
) -> UUID:
    """Store an uploaded image in several phases; ``complete_upload`` is the last phase.

    The same file of the same owner is stored once for each purpose and keeps the same id.

    :param bucket: the public bucket
    :param owner_id: the uploader, who alone may use the image
    :param file: an open file with a file descriptor
    :param sha256: hex digest of the file's content
    :param purpose: the only use of the image
    :return: id of the image
    :raises UnsupportedMediaTypeError: the file is not a JPEG, PNG, WebP or GIF image
    :raises ValidationError: the image cannot be decoded or exceeds the limits
    :raises ProviderUnavailableError: the storage failed
    """
    # Images with different purposes share no objects, so the folder of a key shows the purpose.
    recipe = str(_RENDITION_VERSION) if purpose == PRODUCT else f"{_RENDITION_VERSION}:{purpose}"
    content_hash = hashlib.sha256(f"{recipe}:{sha256}".encode()).hexdigest()
    reused_image_id = database.in_transaction(
        _reuse_ready_image, owner_id=owner_id, content_hash=content_hash, now=now
    )
    if reused_image_id is not None:
        return reused_image_id
    picture = re_encode(file, name="file", sizes=RENDITION_SIZES)
    image_id, objects = database.in_transaction(
        _start_upload,
        owner_id=owner_id,
        purpose=purpose,
        content_hash=content_hash,
        picture=picture,
        now=now,
    )
    put_all(storage, bucket=bucket, objects=objects)
    return image_id


def _reuse_ready_image(session: Session, *, owner_id: UUID, content_hash: str, now: datetime) -> UUID | None:
    """Find an owner's image with the same content and purpose, and restart the grace period of an unused image."""
    return session.scalar(
        update(Image)
        .where(Image.owner_id == owner_id, Image.content_hash == content_hash, Image.status == "ready")
        .values(unused_since=case((Image.unused_since.is_not(None), now)))
        .returning(Image.id)
    )


def complete_upload(session: Session, *, image_id: UUID, media_base_url: str) -> dict[str, Any]:
    """Make an image available to listings after all objects are stored.

    :param image_id: result of ``upload_image``
    :return: the image as built by ``image_view``
    :raises ImageUploadExpiredError: the cleanup removed the image in the meantime
    """
    image = session.scalar(
        update(Image)
        .where(Image.id == image_id, Image.status.in_(("pending", "ready")))
        .values(status="ready")
        .returning(Image)
    )
    if image is None:
        raise ImageUploadExpiredError(texts.IMAGE_UPLOAD_EXPIRED)
    return image_view(str(image.id), image.key, image.renditions, media_base_url=media_base_url)


def image_view(
    image_id: str, key: str, renditions: Sequence[Mapping[str, Any]], *, media_base_url: str
) -> dict[str, Any]:
    """Build the API view of an image.

    :param key: the object key of the rendition for cards, used if there is no rendition for the product page
    :return: ``url``, ``width`` and ``height`` describe the rendition for the product page
    """
    pages = [
        rendition
        for rendition in renditions
        if rendition["contentType"] == "image/webp"
        and max(rendition["width"], rendition["height"]) <= DETAIL_IMAGE_SIZE
    ]
    page = pages[-1] if pages else None
    return {
        "id": image_id,
        "url": f"{media_base_url}/{page['key'] if page else key}",
        "width": page["width"] if page else None,
        "height": page["height"] if page else None,
        "sizes": [
            {
                "url": f"{media_base_url}/{rendition['key']}",
                "width": rendition["width"],
                "height": rendition["height"],
                "content_type": rendition["contentType"],
            }
            for rendition in renditions
        ],
    }


def claim_images(
    session: Session, *, image_ids: Sequence[UUID], owner_id: UUID, purpose: str, parameter: str
) -> list[Image]:
    """Lock a user's ready images and mark them as used. The caller writes the rows that use the images.

    :param image_ids: without duplicates
    :param purpose: one of ``USER_PURPOSES``
    :param parameter: the API field with the ids, for errors: ``imageIds`` or ``avatarImageId``
    :return: the images in the given order
    :raises ValidationError: an image does not exist, has another owner or another purpose
    """
    # The lock keeps the cleanup from deleting an image in the meantime.
    images = session.scalars(
        select(Image)
        .where(
            Image.id.in_(image_ids),
            Image.owner_id == owner_id,
            Image.purpose == purpose,
            Image.status == "ready",
        )
        .order_by(Image.id)
        .with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    )
    found = {image.id: image for image in images}
    is_list = parameter.endswith("s")
    faults = [
        InvalidParam(f"{parameter}[{index}]" if is_list else parameter, texts.IMAGE_NOT_UPLOADED)
        for index, image_id in enumerate(image_ids)
        if image_id not in found
    ]
    if faults:
        raise ValidationError(texts.IMAGES_NOT_UPLOADED, invalid_params=faults)
    for image in found.values():
        image.unused_since = None
    return [found[image_id] for image_id in image_ids]


def release_images(session: Session, *, image_ids: Sequence[UUID], now: datetime) -> None:
    """Start the grace period of images that a row no longer uses. The cleanup keeps images with other uses."""
    session.execute(
        update(Image).where(Image.id.in_(image_ids), Image.unused_since.is_(None)).values(unused_since=now)
    )


# Rows with the same content share objects, so only a single transaction may add or remove such rows at a time.
LOCK_IMAGE_CONTENT = Statement(
    text("SELECT pg_advisory_xact_lock(hashtextextended('image:' || :content, 0))")
)


def _start_upload(
    session: Session, *, owner_id: UUID, purpose: str, content_hash: str, picture: Picture, now: datetime
) -> tuple[UUID, list[StoredObject]]:
    """Write the row of an upload, or resume the row of an interrupted upload.

    :return: id of the image, and the objects to store
    """
    LOCK_IMAGE_CONTENT.run(session, content=content_hash)
    images = session.scalars(
        select(Image).where(Image.content_hash == content_hash).order_by(Image.id),
        execution_options={"populate_existing": True},
    ).all()
    keys = _object_keys(f"{_FOLDERS[purpose]}/{content_hash}", picture, images)
    objects = [
        StoredObject(key, rendition.content, rendition.content_type, IMMUTABLE_CACHE_CONTROL)
        for key, rendition in zip(keys, picture.renditions, strict=True)
    ]
    for image in images:
        if image.owner_id == owner_id and image.status in ("pending", "ready"):
            if image.status == "pending":
                image.unused_since = now
            return image.id, objects
    started = Image(
        purpose=purpose,
        owner_id=owner_id,
        key=keys[0],
        content_hash=content_hash,
        content_type=picture.format.content_type,
        width=picture.width,
        height=picture.height,
        renditions=[
            {
                "key": key,
                "width": rendition.width,
                "height": rendition.height,
                "contentType": rendition.content_type,
            }
            for key, rendition in zip(keys, picture.renditions, strict=True)
        ],
        status="pending",
        unused_since=now,
        created_at=now,
    )
    session.add(started)
    session.flush()
    return started.id, objects


def _object_keys(path: str, picture: Picture, images: Sequence[Image]) -> list[str]:
    """Choose object keys: the keys of live rows with this content, or unused keys if the objects are being deleted.

    :param path: the folder of the purpose and the hash of the content
    :param images: all rows with the content
    """
    first = _key_suffix(picture.renditions[0])
    live = [image.key for image in images if image.status in ("pending", "ready")]
    if live:
        stem = live[0].removesuffix(first)
    else:
        used = {image.key for image in images}
        stems = itertools.chain([path], (f"{path}.{n}" for n in itertools.count(2)))
        stem = next(stem for stem in stems if stem + first not in used)
    return [stem + _key_suffix(rendition) for rendition in picture.renditions]


def _key_suffix(rendition: Rendition) -> str:
    return f"-{rendition.name}.webp" if rendition.name.isdecimal() else f".{rendition.name}"
