"""Tables of users, staff roles and addresses."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Numeric, column, func, text
from sqlalchemy.dialects.postgresql import JSONB, ExcludeConstraint
from sqlalchemy.orm import Mapped, mapped_column, query_expression

from marketplace.identity.preferences import Preferences, resolve_preferences
from marketplace.infra.db import Base, Entity, Timestamped
from marketplace.infra.encryption import ENCRYPTED_VALUE_PATTERN, BlindIndex, EncryptedText

NEW_REFERRAL_CODE = text("upper(substr(replace(gen_random_uuid()::text, '-', ''), 1, 10))")


class AdminRole(Base):
    """A staff role with its permissions."""

    __tablename__ = "admin_roles"

    role: Mapped[str] = mapped_column(primary_key=True)
    permissions: Mapped[list[str]]


class Profile(Timestamped, Base):
    """A user. The id is the ``sub`` claim of the identity provider's tokens."""

    __tablename__ = "profiles"
    __table_args__ = (
        CheckConstraint("role IN ('buyer', 'vendor', 'staff')", name="role"),
        CheckConstraint("account_status IN ('active', 'restricted', 'suspended')", name="account_status"),
        CheckConstraint(
            "(avatar_image_id IS NULL) = (avatar_key IS NULL)"
            " AND (avatar_image_id IS NULL OR avatar_url IS NULL)",
            name="avatar",
        ),
        CheckConstraint("(role = 'staff') = (staff_role IS NOT NULL)", name="staff_role"),
        CheckConstraint("phone_verified_at IS NULL OR phone IS NOT NULL", name="phone_verified_at"),
        Index(
            "uq_profiles_verified_phone",
            "phone",
            unique=True,
            postgresql_where=text("phone_verified_at IS NOT NULL"),
        ),
        Index("ix_profiles_email", text("lower(email)")),
        Index(
            "ix_profiles_search",
            func.people_search_text(column("name"), column("email")).label("search_text"),
            postgresql_using="gin",
            postgresql_ops={"search_text": "gin_trgm_ops"},
        ),
        Index("ix_profiles_phone", "phone", postgresql_where=text("phone IS NOT NULL")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    email: Mapped[str | None] = mapped_column(info={"personal": "email"})
    name: Mapped[str | None] = mapped_column(info={"personal": "name"})
    phone: Mapped[str | None] = mapped_column(info={"personal": "phone"})
    phone_verified_at: Mapped[datetime | None] = mapped_column(
        comment="Time at which the user proved to have the phone number; null after a change of the number"
    )
    campus_id: Mapped[UUID | None] = mapped_column(ForeignKey("campuses.id"), index=True)
    avatar_url: Mapped[str | None] = mapped_column(info={"personal": "picture"})
    avatar_image_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("images.id", name="fk_profiles_avatar_image_id", use_alter=True), index=True
    )
    avatar_key: Mapped[str | None] = mapped_column(
        info={"personal": "picture"},
        comment="Object key of the rendition for cards of the uploaded avatar",
    )
    role: Mapped[str] = mapped_column(server_default="buyer")
    staff_role: Mapped[str | None] = mapped_column(ForeignKey("admin_roles.role"))
    badges: Mapped[list[str]] = mapped_column(server_default="{}")
    account_status: Mapped[str] = mapped_column(server_default="active")
    status_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    appeal_status: Mapped[str | None]
    referral_code: Mapped[str] = mapped_column(unique=True, server_default=NEW_REFERRAL_CODE)
    referral_code_issued_at: Mapped[datetime | None] = mapped_column(
        comment="Time of a later code; null for the code of the profile's creation"
    )
    referral_pending: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Whether the next delivered order may reward a referrer"
    )
    notification_preferences: Mapped[dict[str, dict[str, bool]]] = mapped_column(
        JSONB,
        server_default=text("'{}'"),
        comment="Channels on or off by kind of message, where they differ from the defaults",
    )
    revision: Mapped[int] = mapped_column(server_default=text("1"))
    # Only ``queries.fetch_profile`` fills these attributes, partly from joined tables.
    shown_avatar_url: Mapped[str | None] = query_expression()
    permissions: Mapped[list[str]] = query_expression()
    campus: Mapped[dict[str, str] | None] = query_expression()

    @property
    def phone_verified(self) -> bool:
        """Whether the user proved to have the phone number."""
        return self.phone_verified_at is not None

    @property
    def all_notification_preferences(self) -> Preferences:
        """The channels of all kinds of messages, with the defaults where the user decided nothing."""
        return resolve_preferences(self.notification_preferences)


ERASED_SUBJECT_INDEX = BlindIndex("erased_identities.subject")


class ErasedIdentity(Base):
    """The tombstone of an erased person, which keeps the account from being created again.

    The keyed hash of the token's subject identifies the person only together with a token.
    """

    __tablename__ = "erased_identities"

    subject_index: Mapped[bytes | str] = mapped_column(ERASED_SUBJECT_INDEX, primary_key=True)
    erased_at: Mapped[datetime]


PHONE_CODE_INDEX = BlindIndex("phone_codes.phone")


class PhoneCode(Entity):
    """A code sent to verify a phone number. The code itself is derived from the id and not stored."""

    __tablename__ = "phone_codes"
    __table_args__ = (
        CheckConstraint(f"phone ~ '{ENCRYPTED_VALUE_PATTERN}'", name="phone"),
        CheckConstraint("failures BETWEEN 0 AND 5", name="failures"),
        CheckConstraint("expires_at > created_at", name="expires_at"),
        Index("ix_phone_codes_user", "user_id", "created_at"),
        Index("ix_phone_codes_number", "phone_index", "created_at"),
        Index("ix_phone_codes_created_at", "created_at"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    phone: Mapped[str] = mapped_column(EncryptedText("phone_codes.phone"), info={"personal": "phone"})
    phone_index: Mapped[bytes | str] = mapped_column(PHONE_CODE_INDEX)
    failures: Mapped[int] = mapped_column(server_default=text("0"), comment="Number of wrong attempts")
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class FormerContact(Entity):
    """A replaced phone number or e-mail address, notified of security changes in case the account was taken over."""

    __tablename__ = "former_contacts"
    __table_args__ = (
        CheckConstraint("kind IN ('phone', 'email')", name="kind"),
        Index("ix_former_contacts_user", "user_id", "replaced_at"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    kind: Mapped[str]
    contact: Mapped[str] = mapped_column(info={"personal": "contact"})
    replaced_at: Mapped[datetime]


class Address(Timestamped, Entity):
    """A saved delivery address."""

    __tablename__ = "addresses"
    __table_args__ = (
        Index("ix_addresses_user", "user_id", "created_at"),
        Index(
            "uq_addresses_default",
            "user_id",
            unique=True,
            postgresql_where=text("is_default AND deleted_at IS NULL"),
        ),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    label: Mapped[str | None] = mapped_column(info={"personal": "address"})
    hostel: Mapped[str] = mapped_column(info={"personal": "address"})
    hall: Mapped[str | None] = mapped_column(info={"personal": "address"})
    room_number: Mapped[str | None] = mapped_column(info={"personal": "address"})
    latitude: Mapped[Decimal | None] = mapped_column(Numeric(9, 6), info={"personal": "address"})
    longitude: Mapped[Decimal | None] = mapped_column(Numeric(9, 6), info={"personal": "address"})
    instructions: Mapped[str | None] = mapped_column(info={"personal": "address"})
    phone: Mapped[str | None] = mapped_column(info={"personal": "phone"})
    is_default: Mapped[bool] = mapped_column(server_default=text("false"))
    deleted_at: Mapped[datetime | None]


class RepShift(Timestamped, Entity):
    """A weekly shift of a campus representative at a hub, in minutes since midnight in Nigerian time."""

    __tablename__ = "rep_shifts"
    __table_args__ = (
        CheckConstraint("weekday BETWEEN 0 AND 6", name="weekday"),
        CheckConstraint(
            "starts_minute >= 0 AND ends_minute > starts_minute AND ends_minute <= 1440", name="minutes"
        ),
        # A representative is at one hub at a time.
        ExcludeConstraint(
            ("user_id", "="),
            ("weekday", "="),
            (text("int8range(starts_minute, ends_minute)"), "&&"),
            using="gist",
            name="ex_rep_shifts_user",
        ),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    hub_id: Mapped[UUID] = mapped_column(ForeignKey("hubs.id"), index=True)
    weekday: Mapped[int] = mapped_column(comment="0 is Monday")
    starts_minute: Mapped[int]
    ends_minute: Mapped[int]
