"""Schemas of the functions' bodies and replies.

Bodies of providers may have further fields, since providers add fields at any time.
"""

import unicodedata
from collections.abc import Mapping
from typing import Any

import marshmallow
from marshmallow import ValidationError, fields, post_load, validate

from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, Phone, Schema, SingleLineText, Uuid
from marketplace.kernel import demo_ids
from marketplace.kernel.phones import normalise_phone
from marketplace.referrals import states
from marketplace.referrals.provision import NewUser

MAX_EMAIL_LENGTH = 254  # RFC 5321, section 4.5.3.1.3
MAX_NAME_LENGTH = 100
_MAX_TEXT_LENGTH = 1_000
_HOOKS = ("before-user-created", "after-user-created")
_TRIGGER = {"type": "INSERT", "schema": "auth", "table": "users"}
_EXAMPLE_EMAIL = "ada@unilag.example"
_EXAMPLE_METADATA = {"full_name": "Ada Obi", "referral_code": "K7M2Q9"}
_CONFLICT = "Send exactly one of `userId`, `user` and `record`."


class ProviderSchema(Schema):
    """A part of a provider's body. Unknown fields are ignored."""

    class Meta:
        """Accept unknown fields."""

        unknown = marshmallow.INCLUDE


class ProviderText(fields.String):
    """A text of a provider. An empty text stands for a missing text."""

    def __init__(self, *, max_length: int = _MAX_TEXT_LENGTH, **kwargs: Any) -> None:
        super().__init__(validate=validate.Length(max=max_length), **kwargs)


class Email(ProviderText):
    """An e-mail address. The domain decides on the campus."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_EMAIL_LENGTH, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        email: str = super()._deserialize(value, attr, data, **kwargs).strip()
        mailbox, at, domain = email.rpartition("@")
        if email and (not (mailbox and at and domain) or not email.isprintable() or " " in email):
            raise ValidationError("Must be an e-mail address.")
        return email


class UserMetadata(ProviderSchema):
    """Data that the person entered at the sign-up."""

    full_name = ProviderText(data_key="full_name", metadata=doc("Full name.", "Ada Obi"))
    name = ProviderText(metadata=doc("Full name, if `full_name` is missing.", "Ada Obi"))
    referral_code = ProviderText(
        data_key="referral_code", metadata=doc("Code of the referrer.", _EXAMPLE_METADATA["referral_code"])
    )


class HookMetadata(ProviderSchema):
    """Facts about a call of an auth hook."""

    name = ProviderText(
        required=True,
        metadata=doc(
            f"Name of the hook. Hooks other than `{'` and `'.join(_HOOKS)}` are ignored.", _HOOKS[0]
        ),
    )


class HookUser(ProviderSchema):
    """The account that the identity provider is about to create."""

    id = Uuid(required=True, metadata=doc("Id of the account.", demo_ids.BUYER))
    email = Email(metadata=doc("E-mail address; empty without one.", _EXAMPLE_EMAIL))
    phone = ProviderText(metadata=doc("Phone number; empty without one.", "2348031234567"))
    user_metadata = fields.Nested(
        UserMetadata, data_key="user_metadata", metadata=doc("Data of the sign-up.", _EXAMPLE_METADATA)
    )


class _InsertedUser(HookUser):
    """A new row of the identity provider's table of users."""

    user_metadata = fields.Nested(UserMetadata, data_key="raw_user_meta_data")


class CreateUser(ProviderSchema):
    """A new user, in one of three shapes.

    - The identity provider's hook sends `metadata` and `user`.
    - A trigger of the provider's database sends `type`, `schema`, `table` and `record`.
    - Own callers send `userId` and further fields.
    """

    example_omits = frozenset({"metadata", "user", "type", "schema_name", "table", "record"})

    user_id = Uuid(metadata=doc("Id of the account, the `sub` of its tokens.", demo_ids.BUYER))
    email = Email(metadata=doc("E-mail address.", _EXAMPLE_EMAIL))
    name = SingleLineText(max_length=MAX_NAME_LENGTH, metadata=doc("Full name.", "Ada Obi"))
    phone = Phone(metadata=doc("Unverified phone number.", "+2348031234567"))
    referral_code = SingleLineText(
        max_length=40, metadata=doc("Code of the referrer.", _EXAMPLE_METADATA["referral_code"])
    )
    metadata = fields.Nested(HookMetadata, metadata=doc("Facts about the call of the hook."))
    user = fields.Nested(HookUser, metadata=doc("Account that the hook is about."))
    type = ProviderText(
        metadata=doc("Event of the trigger. Events other than `INSERT` are ignored.", _TRIGGER["type"])
    )
    schema_name = ProviderText(
        data_key="schema", metadata=doc("Schema of the trigger's table.", _TRIGGER["schema"])
    )
    table = ProviderText(
        metadata=doc("Table of the trigger. Tables other than `auth.users` are ignored.", _TRIGGER["table"])
    )
    record = fields.Dict(
        keys=fields.String(),
        metadata=doc(
            "New row, with `id`, `email`, `phone` and `raw_user_meta_data`.",
            {"id": demo_ids.BUYER, "email": _EXAMPLE_EMAIL, "raw_user_meta_data": _EXAMPLE_METADATA},
        ),
    )

    @post_load
    def read_user(self, data: dict[str, Any], **_kwargs: Any) -> dict[str, NewUser | None]:
        """Return the new user, or none for a call that is to be ignored.

        :raises ValidationError: the body has none of the shapes, or mixes them
        """
        shapes = [name for name, keys in _SHAPES.items() if not data.keys().isdisjoint(keys)]
        if len(shapes) != 1:
            raise ValidationError(_CONFLICT)
        return {"user": _READERS[shapes[0]](data)}


_SHAPES = {"own": ("user_id",), "hook": ("metadata", "user"), "trigger": ("type", "record")}


def _read_own(data: Mapping[str, Any]) -> NewUser:
    known = CreateUser().fields
    unknown = {name: ["Unknown field."] for name in data.keys() - known.keys()}
    if unknown:
        raise ValidationError(unknown)
    return NewUser(
        id=data["user_id"],
        email=data.get("email") or None,
        name=data.get("name"),
        phone=data.get("phone"),
        referral_code=data.get("referral_code"),
    )


def _read_hook(data: Mapping[str, Any]) -> NewUser | None:
    missing = {
        name: ["Missing data for required field."] for name in ("metadata", "user") if name not in data
    }
    if missing:
        raise ValidationError(missing)
    return _read_account(data["user"]) if data["metadata"]["name"] in _HOOKS else None


def _read_trigger(data: Mapping[str, Any]) -> NewUser | None:
    event = {"type": data.get("type"), "schema": data.get("schema_name"), "table": data.get("table")}
    if event != _TRIGGER:
        return None
    try:
        return _read_account(_InsertedUser().load(data.get("record", {})))
    except ValidationError as error:
        raise ValidationError({"record": error.messages}) from error


_READERS = {"own": _read_own, "hook": _read_hook, "trigger": _read_trigger}


def _read_account(account: Mapping[str, Any]) -> NewUser:
    """Return the user of a provider's account. Details that are of no use never prevent a sign-up."""
    entered = account.get("user_metadata") or {}
    return NewUser(
        id=account["id"],
        email=account.get("email") or None,
        name=_clean_name(entered.get("full_name") or entered.get("name") or ""),
        phone=normalise_phone(account.get("phone") or ""),
        referral_code=(entered.get("referral_code") or "").strip() or None,
    )


def _clean_name(name: str) -> str | None:
    """Return a name in one line, composed and without control and invisible characters; none if nothing is left."""
    composed = unicodedata.normalize("NFC", " ".join(name.split()))
    visible = "".join(character for character in composed if unicodedata.category(character)[0] != "C")
    return " ".join(visible[:MAX_NAME_LENGTH].split()) or None


class CreatedUser(Schema):
    """The result for a user. For an ignored call, `ignored` is true and the other fields are missing."""

    ignored = fields.Boolean(
        required=True,
        metadata=doc("Whether the call is about something else, so that nothing was done.", False),
    )
    user_id = Uuid(metadata=doc("Id of the user.", demo_ids.BUYER))
    created = fields.Boolean(metadata=doc("Whether the call created the profile.", True))
    referral_status = Choice(
        *sorted(states.REFERRAL.states),
        allow_none=True,
        metadata=doc("Status of the user's referral; null without a referral code.", "pending"),
    )
    referral_rejection = Choice(
        *states.REJECTIONS,
        allow_none=True,
        metadata=doc("Why the referral earns nothing; null for others.", None),
    )
