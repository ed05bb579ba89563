"""Tables of users, staff roles and addresses."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Numeric, UniqueConstraint, column, func, text
from sqlalchemy.dialects.postgresql import JSONB, ExcludeConstraint
from sqlalchemy.orm import Mapped, mapped_column, validates

from marketplace.infra.db import Base, Entity, Timestamped
from marketplace.infra.encryption import ENCRYPTED_VALUE_PATTERN, BlindIndex, EncryptedText

# All columns of phone numbers and replaced addresses share these types, so that SQL can copy and compare values.
CONTACT = EncryptedText("contact")
CONTACT_INDEX = BlindIndex("contact")
_ENCRYPTED_PHONE = f"phone ~ '{ENCRYPTED_VALUE_PATTERN}'"
NEW_REFERRAL_CODE = text("upper(substr(replace(gen_random_uuid()::text, '-', ''), 1, 10))")


class AdminRole(Base):
    """A staff role with its permissions."""

    __tablename__ = "admin_roles"

    role: Mapped[str] = mapped_column(primary_key=True)
    permissions: Mapped[list[str]]


class StaffSignIn(Base):
    """A sign-in of a staff member that the audit trail has."""

    __tablename__ = "staff_sign_ins"

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    signed_in_at: Mapped[datetime] = mapped_column(primary_key=True)


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
        CheckConstraint("language IN ('en', 'pcm')", name="language"),
        CheckConstraint("(role = 'staff') = (staff_role IS NOT NULL)", name="staff_role"),
        CheckConstraint("phone_verified_at IS NULL OR phone IS NOT NULL", name="phone_verified_at"),
        CheckConstraint(_ENCRYPTED_PHONE, name="phone"),
        CheckConstraint("(phone IS NULL) = (phone_index IS NULL)", name="phone_index"),
        CheckConstraint(
            "status_code IS NULL OR (status_code = 'deletion_pending' AND account_status = 'restricted')",
            name="status_code",
        ),
        CheckConstraint("status_until IS NULL OR account_status <> 'active'", name="status_until"),
        CheckConstraint(
            "erased_at IS NULL OR (account_status = 'suspended' AND role = 'buyer'"
            " AND num_nonnulls(email, name, phone, avatar_url, avatar_key, status_reason) = 0)",
            name="erased",
        ),
        Index(
            "uq_profiles_verified_phone_index",
            "phone_index",
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
        Index("ix_profiles_phone_index", "phone_index", postgresql_where=text("phone_index IS NOT NULL")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    email: Mapped[str | None] = mapped_column(info={"personal": "email"})
    name: Mapped[str | None] = mapped_column(info={"personal": "name"})
    phone: Mapped[str | None] = mapped_column(CONTACT, info={"personal": "phone"})
    phone_index: Mapped[bytes | str | None] = mapped_column(CONTACT_INDEX)
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
    language: Mapped[str] = mapped_column(server_default="en")
    badges: Mapped[list[str]] = mapped_column(server_default="{}")
    account_status: Mapped[str] = mapped_column(server_default="active")
    status_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    status_code: Mapped[str | None] = mapped_column(
        comment="Set by the service, never by staff: deletion_pending; null for a decision of staff"
    )
    status_until: Mapped[datetime | None] = mapped_column(
        comment="End of the status; null without a known end"
    )
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
    erased_at: Mapped[datetime | None] = mapped_column(
        comment="Time at which an erasure began; the profile has stayed as a pseudonym since then"
    )

    @validates("phone")
    def _index_phone(self, _name: str, phone: str | None) -> str | None:
        self.phone_index = phone
        return phone


class DeletionRequest(Entity):
    """A person's request to delete the account. A person has at most one pending request."""

    __tablename__ = "deletion_requests"
    __table_args__ = (
        CheckConstraint("status IN ('pending', 'cancelled', 'executed')", name="status"),
        CheckConstraint("(status = 'pending') = (ended_at IS NULL)", name="ended_at"),
        CheckConstraint("grace_ends_at > requested_at", name="grace_ends_at"),
        Index(
            "uq_deletion_requests_pending",
            "user_id",
            unique=True,
            postgresql_where=text("status = 'pending'"),
        ),
        Index("ix_deletion_requests_user", "user_id", text("id DESC")),
        Index(
            "ix_deletion_requests_grace", "grace_ends_at", "id", postgresql_where=text("status = 'pending'")
        ),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    status: Mapped[str] = mapped_column(server_default="pending")
    reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    requested_at: Mapped[datetime]
    grace_ends_at: Mapped[datetime]
    reminders_sent: Mapped[int] = mapped_column(server_default=text("0"))
    ended_at: Mapped[datetime | None]


class AccountDecision(Entity):
    """A decision of staff to restrict or suspend an account. A person has at most one decision that has not ended."""

    __tablename__ = "account_decisions"
    __table_args__ = (
        CheckConstraint("status IN ('restricted', 'suspended')", name="status"),
        CheckConstraint("until > decided_at", name="until"),
        CheckConstraint("ended_how IN ('expired', 'reinstated', 'appeal', 'replaced')", name="ended_how"),
        CheckConstraint(
            "(ended_at IS NULL) = (ended_how IS NULL) AND (ended_by IS NULL OR ended_at IS NOT NULL)",
            name="ended",
        ),
        CheckConstraint("decided_by <> user_id", name="not_own"),
        Index(
            "uq_account_decisions_current", "user_id", unique=True, postgresql_where=text("ended_at IS NULL")
        ),
        Index("ix_account_decisions_user", "user_id", text("id DESC")),
        Index(
            "ix_account_decisions_due",
            "until",
            postgresql_where=text("ended_at IS NULL AND until IS NOT NULL"),
        ),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    status: Mapped[str]
    reason: Mapped[str] = mapped_column(info={"personal": "message"})
    decided_by: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    decided_at: Mapped[datetime]
    until: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    ended_how: Mapped[str | None]
    ended_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))


class AccountAppeal(Entity):
    """An appeal against a decision about an account. The end of the decision closes a pending appeal."""

    __tablename__ = "account_appeals"
    __table_args__ = (
        UniqueConstraint("decision_id"),
        CheckConstraint("status IN ('pending', 'accepted', 'rejected', 'closed')", name="status"),
        CheckConstraint(
            "(status IN ('accepted', 'rejected')) = (decided_by IS NOT NULL)"
            " AND (status = 'pending') = (decided_at IS NULL)"
            " AND (decided_by IS NULL) = (comment IS NULL)",
            name="decided",
        ),
        Index("ix_account_appeals_status", "status", "id"),
    )

    decision_id: Mapped[UUID] = mapped_column(ForeignKey("account_decisions.id"))
    text: Mapped[str] = mapped_column(info={"personal": "message"})
    status: Mapped[str] = mapped_column(server_default="pending")
    created_at: Mapped[datetime]
    decided_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    decided_at: Mapped[datetime | None]
    comment: Mapped[str | None] = mapped_column(info={"personal": "message"})


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
        CheckConstraint(f"contact ~ '{ENCRYPTED_VALUE_PATTERN}'", name="contact"),
        Index("ix_former_contacts_user", "user_id", "replaced_at"),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    kind: Mapped[str]
    contact: Mapped[str] = mapped_column(CONTACT, info={"personal": "contact"})
    contact_index: Mapped[bytes | str] = mapped_column(CONTACT_INDEX)
    replaced_at: Mapped[datetime]

    @validates("contact")
    def _index_contact(self, _name: str, contact: str) -> str:
        self.contact_index = contact
        return contact


class Address(Timestamped, Entity):
    """A saved delivery address."""

    __tablename__ = "addresses"
    __table_args__ = (
        CheckConstraint(_ENCRYPTED_PHONE, name="phone"),
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
    phone: Mapped[str | None] = mapped_column(CONTACT, info={"personal": "phone"})
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
