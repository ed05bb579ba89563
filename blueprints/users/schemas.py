"""Schemas of accounts and addresses."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.http.field_docs import OTHER_ID, doc
from blueprints.http.fields import (
    AddressFields,
    Choice,
    ClearableFields,
    ClearList,
    ExpectedRevision,
    FullMatch,
    HttpUrl,
    Identified,
    NamedResource,
    Phone,
    Revised,
    Schema,
    SingleLineText,
    StrictBoolean,
    Timestamp,
    Updated,
    Uuid,
)
from marketplace.identity import permissions
from marketplace.identity.queries import ACCOUNT_STATUSES, ROLES
from marketplace.kernel import demo_ids
from marketplace.media import images
from marketplace.notifications.phrases import LANGUAGES


class ChannelChanges(Schema):
    """Channels to switch on or off for a kind of message. Omitted channels stay unchanged."""

    push = StrictBoolean(metadata=doc("Push messages to your devices.", True))
    message = StrictBoolean(metadata=doc("Messages by the messaging provider.", False))
    sms = StrictBoolean(metadata=doc("SMS to your phone number.", False))
    email = StrictBoolean(metadata=doc("E-mails.", True))


class NotificationPreferenceChanges(Schema):
    """Changes of notification preferences by kind of message. Omitted kinds stay unchanged.

    Messages about security and the delivery PIN cannot be switched off.
    """

    orders = fields.Nested(ChannelChanges, metadata=doc("Your orders, as buyer and vendor."))
    payments = fields.Nested(ChannelChanges, metadata=doc("Payments, refunds and your wallet."))
    payouts = fields.Nested(ChannelChanges, metadata=doc("Payouts to your bank account."))
    chat = fields.Nested(ChannelChanges, metadata=doc("Messages of buyers and vendors."))
    support = fields.Nested(ChannelChanges, metadata=doc("Support tickets and disputes."))
    reviews = fields.Nested(ChannelChanges, metadata=doc("Reviews and replies."))
    favorites = fields.Nested(ChannelChanges, metadata=doc("Lower prices and restocks of your favourites."))
    marketing = fields.Nested(ChannelChanges, metadata=doc("Offers and news."))


class ChannelPreferences(Schema):
    """The channels of a kind of message."""

    push = fields.Boolean(required=True, metadata=doc("Push messages to your devices.", True))
    message = fields.Boolean(required=True, metadata=doc("Messages by the messaging provider.", False))
    sms = fields.Boolean(required=True, metadata=doc("SMS to your phone number.", False))
    email = fields.Boolean(required=True, metadata=doc("E-mails.", True))


class NotificationPreferences(Schema):
    """Channels by kind of message. The feed shows all kinds."""

    orders = fields.Nested(
        ChannelPreferences, required=True, metadata=doc("Your orders, as buyer and vendor.")
    )
    payments = fields.Nested(
        ChannelPreferences, required=True, metadata=doc("Payments, refunds and your wallet.")
    )
    payouts = fields.Nested(ChannelPreferences, required=True, metadata=doc("Payouts to your bank account."))
    chat = fields.Nested(ChannelPreferences, required=True, metadata=doc("Messages of buyers and vendors."))
    support = fields.Nested(ChannelPreferences, required=True, metadata=doc("Support tickets and disputes."))
    reviews = fields.Nested(ChannelPreferences, required=True, metadata=doc("Reviews and replies."))
    favorites = fields.Nested(
        ChannelPreferences, required=True, metadata=doc("Lower prices and restocks of your favourites.")
    )
    marketing = fields.Nested(ChannelPreferences, required=True, metadata=doc("Offers and news."))


class UpdateMe(ExpectedRevision, ClearableFields):
    """Changes to the profile. Omitted fields stay unchanged."""

    example_omits = frozenset({"avatar_image_id", "revision"})

    name = SingleLineText(max_length=100, metadata=doc("Full name.", "Amara Okafor"))
    phone = Phone()
    campus_id = Uuid(metadata=doc("Id of the campus.", demo_ids.CAMPUS))
    avatar_url = HttpUrl(
        schemes={"https"},
        metadata=doc(
            "https URL of a picture.",
            "https://media.example.com/avatars/amara.webp",
        ),
    )
    avatar_image_id = Uuid(
        metadata=doc("Id of an uploaded avatar, instead of `avatarUrl`.", OTHER_ID),
    )
    notification_preferences = fields.Nested(
        NotificationPreferenceChanges, metadata=doc("Channels to switch on or off, by kind of message.")
    )
    language = Choice(
        *LANGUAGES, metadata=doc("Language of notifications: `en` or `pcm` (Nigerian Pidgin).", "en")
    )
    clear = ClearList("phone", "campusId", "avatarUrl")

    @validates_schema
    def check_avatar(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that the avatar has a single source."""
        if "avatar_image_id" in data and ("avatar_url" in data or "avatarUrl" in data.get("clear", ())):
            raise ValidationError("Must not be combined with avatarUrl.", "avatarImageId")


class RequestPhoneCode(Schema):
    """A phone number to verify."""

    phone = Phone(required=True)


class PhoneCodeSent(Schema):
    """A code that was sent by SMS. A new code replaces earlier codes."""

    phone = fields.String(required=True)
    expires_at = Timestamp(
        required=True,
        metadata=doc("Time from which the code is no longer valid.", "2026-09-01T10:10:00.000Z"),
    )
    attempts_left = fields.Integer(
        required=True, metadata=doc("Number of times that a code can be entered.", 5)
    )


class ConfirmPhone(Schema):
    """The code of the SMS."""

    code = fields.String(
        required=True,
        validate=FullMatch("[0-9]{6}", error="Must be 6 digits."),
        metadata=doc("The code of the latest SMS.", "482915"),
    )


class UploadUserImage(Schema):
    """The purpose of an uploaded image."""

    purpose = Choice(
        *images.USER_PURPOSES,
        required=True,
        metadata=doc("The only use of the image: your profile, a review or a chat message.", "avatar"),
    )


class UserImage(Identified):
    """An uploaded image."""

    example_id = demo_ids.IMAGE

    url = fields.String(
        required=True, metadata=doc("URL of the image.", "https://media.example.com/avatars/amara-800.webp")
    )


class MyCampus(NamedResource):
    """The campus of the user."""


class Me(Revised):
    """The profile of the user."""

    example_id = demo_ids.BUYER

    email = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("E-mail address of the account; null without one.", "buyer@north.example.edu"),
    )
    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Amara Okafor")
    )
    phone = fields.String(required=True, allow_none=True)
    phone_verified = fields.Boolean(
        required=True,
        metadata=doc("Whether the user proved to have the phone number, by a code sent as SMS.", True),
    )
    avatar_url = fields.String(
        attribute="shown_avatar_url",
        required=True,
        allow_none=True,
        metadata=doc("URL of the picture; null without one.", "https://media.example.com/avatars/amara.webp"),
    )
    role = Choice(*ROLES, required=True, metadata=doc("`buyer`, `vendor` or `staff`.", "buyer"))
    staff_role = fields.String(
        required=True, allow_none=True, metadata=doc("Role among the staff; null for other users.", None)
    )
    permissions = fields.List(
        Choice(*permissions.ALL),
        required=True,
        metadata=doc("Permissions of staff; empty for other users.", ["canManageOrders"]),
    )
    badges = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Badges that the platform awarded.", ["verified_student"]),
    )
    account_status = Choice(
        *ACCOUNT_STATUSES, required=True, metadata=doc("`active`, `restricted` or `suspended`.", "active")
    )
    status_reason = fields.String(required=True, allow_none=True)
    appeal_status = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Status of an appeal against a restriction; null without an appeal.", None),
    )
    referral_code = fields.String(
        required=True, metadata=doc("Code with which others can name the user as referrer.", "7C9E667974")
    )
    campus_id = Uuid(required=True, allow_none=True)
    notification_preferences = fields.Nested(
        NotificationPreferences,
        attribute="all_notification_preferences",
        required=True,
        metadata=doc("Channels of messages, by kind of message."),
    )
    language = Choice(
        *LANGUAGES,
        required=True,
        metadata=doc("Language of notifications: `en` or `pcm` (Nigerian Pidgin).", "en"),
    )
    campus = fields.Nested(
        MyCampus, required=True, allow_none=True, metadata=doc("Campus of the user; null without a campus.")
    )


class UpdateAddress(AddressFields, ClearableFields):
    """Changes to an address. Omitted fields stay unchanged."""

    is_default = StrictBoolean()
    clear = ClearList("label", "hall", "roomNumber", "latitude", "longitude", "instructions", "phone")

    @validates_schema
    def check_cleared_coordinates(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that latitude and longitude are cleared together."""
        if len({"latitude", "longitude"} & set(data.get("clear", ()))) == 1:
            raise ValidationError("Clear latitude and longitude together.", "clear")


class AddAddress(AddressFields):
    """A new delivery address."""

    hostel = SingleLineText(max_length=120, required=True)
    is_default = StrictBoolean()


class AddressView(Updated):
    """A saved delivery address."""

    example_id = demo_ids.ADDRESS

    label = fields.String(required=True, allow_none=True)
    hostel = fields.String(required=True)
    hall = fields.String(required=True, allow_none=True)
    room_number = fields.String(required=True, allow_none=True)
    latitude = fields.Float(required=True, allow_none=True)
    longitude = fields.Float(required=True, allow_none=True)
    instructions = fields.String(required=True, allow_none=True)
    phone = fields.String(required=True, allow_none=True)
    is_default = fields.Boolean(required=True)
