"""Create and change profiles; save, change and remove addresses."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.identity import queries, texts
from marketplace.identity.models import CONTACT_INDEX, Address, ErasedIdentity, Profile
from marketplace.identity.preferences import merge_preferences
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import (
    AccountErasedError,
    LimitReachedError,
    NotFoundError,
    StaleRevisionError,
    ValidationError,
)
from marketplace.media.images import AVATAR, claim_images, release_images
from marketplace.platform.campuses.email_domains import find_campus_of_email
from marketplace.platform.models import Campus

MAX_ADDRESSES = 20  # clients show the whole list


def create_profile(
    session: Session,
    *,
    user_id: UUID,
    email: str | None,
    name: str | None,
    phone: str | None = None,
    now: datetime,
) -> bool:
    """Create the profile of a new user, unless the profile exists.

    The new user is a buyer of the campus that owns the e-mail address's domain.

    :param user_id: the subject of the token
    :param email: the address given by the identity provider
    :param name: the name given by the identity provider
    :param phone: an unverified number in international format
    :return: whether the profile is new
    :raises AccountErasedError: the person was erased
    """
    tombstone = select(ErasedIdentity.erased_at).where(ErasedIdentity.subject_index == str(user_id))
    if session.scalar(tombstone) is not None:
        raise AccountErasedError(texts.ACCOUNT_ERASED)
    campus_id = find_campus_of_email(session, email)
    created: UUID | None = session.scalar(
        insert(Profile)
        .values(
            id=user_id,
            email=email,
            name=name,
            phone=phone,
            phone_index=phone,
            campus_id=campus_id,
            created_at=now,
            updated_at=now,
        )
        .on_conflict_do_nothing(index_elements=["id"])
        .returning(Profile.id)
    )
    return created is not None


def complete_profile(
    session: Session, *, user_id: UUID, email: str | None, name: str | None, phone: str | None
) -> None:
    """Fill in the missing fields of a profile that a token created, unless the user has changed the profile.

    :param phone: an unverified number in international format
    """
    profile = session.get(Profile, user_id, with_for_update={"key_share": True}, populate_existing=True)
    if profile is None or profile.updated_at != profile.created_at:
        return
    given = {"email": email, "name": name, "phone": phone, "campus_id": find_campus_of_email(session, email)}
    for field, value in given.items():
        if value and getattr(profile, field) is None:
            setattr(profile, field, value)
    session.flush()


# FOR NO KEY UPDATE lets other transactions insert rows that refer to the profile.
_LOCK_PROFILE = Prepared(
    select(Profile.id).where(Profile.id == bindparam("user_id")).with_for_update(key_share=True)
)


def lock_profile(session: Session, *, user_id: UUID) -> None:
    """Lock a user's profile, so that changes of the user's addresses, cart and orders run one after the other."""
    _LOCK_PROFILE.run(session, user_id=user_id)


# The caller locks the profile, so that each replaced number is stored.
_INSERT_FORMER_PHONE = Statement(
    text(
        """
        INSERT INTO former_contacts (user_id, kind, contact, contact_index, replaced_at)
        SELECT id, 'phone', phone, phone_index, :now FROM profiles
        WHERE id = :user_id AND phone_index IS DISTINCT FROM CAST(:phone_index AS bytea) AND phone IS NOT NULL
        """
    )
)


def _record_former_phone(session: Session, *, user_id: UUID, phone: str | None, now: datetime) -> None:
    phone_index = None if phone is None else CONTACT_INDEX.compute(phone)
    _INSERT_FORMER_PHONE.run(session, user_id=user_id, phone_index=phone_index, now=now)


def update_profile(
    session: Session,
    *,
    user_id: UUID,
    changes: dict[str, Any],
    revision: int | None,
    media_base_url: str,
    now: datetime,
) -> queries.OwnProfile:
    """Change the editable fields of a user's profile. Missing fields are unchanged.

    An uploaded avatar replaces the URL of an external avatar, and the other way round.

    :param changes: any of ``name``, ``phone``, ``campus_id``, ``avatar_url``, ``avatar_image_id``, ``language``
        and ``notification_preferences`` (channels on or off by kind, merged with the stored preferences)
    :param revision: the revision that the client read; none skips the comparison
    :param media_base_url: the base URL of uploaded images
    :return: the owner's view of the profile
    :raises ValidationError: the campus does not exist, or the image is not an avatar that the user uploaded
    :raises StaleRevisionError: the profile has changed since the client read it
    """
    profile = session.get_one(Profile, user_id, with_for_update={"key_share": True}, populate_existing=True)
    StaleRevisionError.check(profile.revision, revision)
    columns = dict(changes)
    campus_id = columns.get("campus_id")
    if campus_id not in (None, profile.campus_id):
        campus = session.get(Campus, campus_id)
        if campus is None or not campus.active:
            raise ValidationError.of("campusId", "Campus not found.")
    if columns.get("avatar_image_id") is not None:
        [image] = claim_images(
            session,
            image_ids=[columns["avatar_image_id"]],
            owner_id=user_id,
            purpose=AVATAR,
            parameter="avatarImageId",
        )
        columns |= {"avatar_key": image.key, "avatar_url": None}
    elif columns.keys() & {"avatar_url", "avatar_image_id"}:
        columns |= {"avatar_image_id": None, "avatar_key": None}
    if "notification_preferences" in columns:
        columns["notification_preferences"] = merge_preferences(
            profile.notification_preferences, columns["notification_preferences"]
        )
    if "phone" in columns and columns["phone"] != profile.phone:
        _record_former_phone(session, user_id=user_id, phone=columns["phone"], now=now)
        columns["phone_verified_at"] = None
    old_image_id = profile.avatar_image_id
    changed = {name: value for name, value in columns.items() if getattr(profile, name) != value}
    if changed:
        for name, value in changed.items():
            setattr(profile, name, value)
        profile.revision += 1
        profile.updated_at = now
        session.flush()
    if old_image_id is not None and profile.avatar_image_id != old_image_id:
        release_images(session, image_ids=[old_image_id], now=now)
    return queries.fetch_profile(session, user_id=user_id, media_base_url=media_base_url, now=now)


def set_verified_phone(session: Session, *, user_id: UUID, phone: str, now: datetime) -> None:
    """Store a phone number that the user proved to have. The caller locks the profile.

    :param phone: in international format; no other profile has this number as verified
    """
    _record_former_phone(session, user_id=user_id, phone=phone, now=now)
    session.execute(
        update(Profile)
        .where(Profile.id == user_id)
        .values(
            phone=phone,
            phone_index=phone,
            phone_verified_at=now,
            revision=Profile.revision + 1,
            updated_at=now,
        ),
        execution_options={"synchronize_session": False},
    )


def add_address(
    session: Session, *, user_id: UUID, fields: dict[str, Any], now: datetime
) -> queries.SavedAddress:
    """Save a delivery address. The first address becomes the default.

    :param fields: columns of Address
    :raises LimitReachedError: the user already has ``MAX_ADDRESSES`` addresses
    """
    lock_profile(session, user_id=user_id)
    count = len(queries.list_addresses(session, user_id=user_id))
    if count >= MAX_ADDRESSES:
        raise LimitReachedError(texts.TOO_MANY_ADDRESSES.format(limit=MAX_ADDRESSES))
    is_default = bool(fields.get("is_default")) or count == 0
    if is_default:
        _clear_default_address(session, user_id=user_id)
    # Copy the fields: a retried transaction gets the same dictionary again.
    columns = fields | {"is_default": is_default, "user_id": user_id}
    address = Address(**columns, created_at=now, updated_at=now)
    session.add(address)
    session.flush()
    return queries.fetch_address(session, user_id=user_id, address_id=address.id)


def update_address(
    session: Session, *, user_id: UUID, address_id: UUID, fields: dict[str, Any], now: datetime
) -> queries.SavedAddress:
    """Change a saved address. Missing fields are unchanged.

    :raises NotFoundError: the address does not exist, or belongs to another user
    """
    address = _lock_own_address(session, user_id=user_id, address_id=address_id)
    if fields.get("is_default") and not address.is_default:
        _clear_default_address(session, user_id=user_id)
    for name, value in fields.items():
        setattr(address, name, value)
    address.updated_at = now
    session.flush()
    return queries.fetch_address(session, user_id=user_id, address_id=address_id)


def remove_address(session: Session, *, user_id: UUID, address_id: UUID, now: datetime) -> None:
    """Remove a saved address. Orders keep a copy of the address.

    After removal of the default address, the latest remaining address becomes the default.

    :raises NotFoundError: the address does not exist, or belongs to another user
    """
    address = _lock_own_address(session, user_id=user_id, address_id=address_id)
    was_default, address.is_default, address.deleted_at = address.is_default, False, now
    session.flush()
    if was_default and (rest := queries.list_addresses(session, user_id=user_id)):
        session.execute(update(Address).where(Address.id == rest[0].id).values(is_default=True))


def _lock_own_address(session: Session, *, user_id: UUID, address_id: UUID) -> Address:
    lock_profile(session, user_id=user_id)
    address = session.scalar(
        select(Address).where(
            Address.id == address_id, Address.user_id == user_id, Address.deleted_at.is_(None)
        )
    )
    if address is None:
        raise NotFoundError("Address not found.")
    return address


def _clear_default_address(session: Session, *, user_id: UUID) -> None:
    session.execute(
        update(Address).where(Address.user_id == user_id, Address.is_default).values(is_default=False),
        execution_options={"synchronize_session": "fetch"},
    )
