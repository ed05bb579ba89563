"""Routes of the caller's account, images and delivery addresses."""

from functools import partial
from typing import Any
from uuid import UUID

from blueprints.http import (
    AUTHENTICATED,
    AUTHENTICATED_ANY_STATUS,
    Context,
    ContractBlueprint,
    CursorQuery,
    Deleted,
    FinalPhase,
    ProcessGroup,
    SharedLimit,
    Upload,
    UploadedFile,
    expected_revision,
    omit_fields,
)
from blueprints.users.schemas import (
    AddAddress,
    AddressView,
    ConfirmPhone,
    Me,
    PhoneCodeSent,
    RequestPhoneCode,
    UpdateAddress,
    UpdateMe,
    UploadUserImage,
    UserImage,
)
from marketplace.identity import operations, phone_verification, queries
from marketplace.infra.imaging.formats import FORMATS
from marketplace.kernel.errors import LimitReachedError, RateLimitError, StaleRevisionError
from marketplace.kernel.paging import Page
from marketplace.media import images
from marketplace.notifications.delivery import code_sms

area = ContractBlueprint("users", "/api/users", "Your account and addresses")


@area.get("/me", auth=AUTHENTICATED_ANY_STATUS, limit=SharedLimit.CALLER_TIER, reply=Me)
def get_me(ctx: Context) -> queries.OwnProfile:
    """Get your profile, campus, role and badges. Restricted and suspended accounts can use this route too."""
    return queries.fetch_profile(
        ctx.session, user_id=ctx.user.id, media_base_url=ctx.media_base_url, now=ctx.now
    )


@area.put("/me", auth=AUTHENTICATED, limit="30/minute", body=UpdateMe, reply=Me, raises=(StaleRevisionError,))
def update_me(ctx: Context, body: dict[str, Any]) -> queries.OwnProfile:
    """Change your name, phone number, campus, avatar or notification preferences."""
    return operations.update_profile(
        ctx.session,
        user_id=ctx.user.id,
        changes=omit_fields(body, "revision"),
        revision=expected_revision(body.get("revision")),
        media_base_url=ctx.media_base_url,
        now=ctx.now,
    )


@area.post(
    "/me/phone/code",
    auth=AUTHENTICATED,
    limit="10/minute",
    group=ProcessGroup.WAITING,
    body=RequestPhoneCode,
    reply=PhoneCodeSent,
    phased=True,
    raises=(phone_verification.PhoneAlreadyVerifiedError, RateLimitError),
)
def request_phone_code(ctx: Context, body: dict[str, Any]) -> phone_verification.IssuedCode:
    """Send a code by SMS to verify a phone number. The code is valid for 10 minutes and replaces earlier codes."""
    services = ctx.services
    with ctx.transaction() as session:
        code_sms.ensure_within_sms_limit(session, settings=services.settings, now=ctx.now)
        issued = phone_verification.issue_code(
            session,
            user_id=ctx.user.id,
            phone=body["phone"],
            key=services.settings.delivery_pin_key,
            now=ctx.now,
        )
    code_sms.send_code(
        services.database,
        services.sms,
        issued,
        user_id=ctx.user.id,
        settings=services.settings,
        now=ctx.now,
    )
    return issued


@area.post(
    "/me/phone/confirm",
    auth=AUTHENTICATED,
    limit="10/minute",
    body=ConfirmPhone,
    reply=Me,
    raises=(phone_verification.NoValidCodeError, phone_verification.WrongCodeError),
)
def confirm_phone(ctx: Context, body: dict[str, Any]) -> queries.OwnProfile:
    """Confirm the code of the SMS. The number becomes the profile's verified phone number."""
    return phone_verification.confirm_code(
        ctx.session,
        user_id=ctx.user.id,
        code=body["code"],
        key=ctx.services.settings.delivery_pin_key,
        media_base_url=ctx.media_base_url,
        now=ctx.now,
    )


@area.post(
    "/me/images",
    auth=AUTHENTICATED,
    limit="60/15 minute",
    group=ProcessGroup.WAITING,
    upload=Upload(
        "file",
        max_bytes=images.MAX_BYTES,
        accepts=tuple(one.content_type for one in FORMATS.values()),
        form=UploadUserImage(),
    ),
    reply=UserImage,
    status=201,
    phased=True,
    raises=(images.ImageUploadExpiredError,),
)
def upload_user_image(ctx: Context, file: UploadedFile) -> FinalPhase:
    """Upload an image for your profile, a review or a chat message."""
    settings = ctx.services.settings
    image_id = images.upload_image(
        ctx.services.database,
        ctx.services.storage,
        bucket=settings.s3_public_bucket,
        owner_id=ctx.user.id,
        file=file.content,
        sha256=file.sha256,
        purpose=file.form["purpose"],
        now=ctx.now,
    )
    return FinalPhase(
        partial(images.complete_upload, image_id=image_id, media_base_url=settings.media_base_url)
    )


@area.get(
    "/me/addresses",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=AddressView(many=True),
)
def list_addresses(ctx: Context, query: dict[str, Any]) -> Page:
    """List your saved addresses, the default address first."""
    return queries.list_addresses_page(ctx.session, user_id=ctx.user.id, page=ctx.page)


@area.post(
    "/me/addresses",
    auth=AUTHENTICATED,
    limit="20/minute",
    body=AddAddress,
    reply=AddressView,
    status=201,
    raises=(LimitReachedError,),
)
def add_address(ctx: Context, body: dict[str, Any]) -> queries.SavedAddress:
    """Save a delivery address. The first address becomes the default."""
    return operations.add_address(ctx.session, user_id=ctx.user.id, fields=body, now=ctx.now)


@area.put(
    "/me/addresses/<uuid:address_id>",
    auth=AUTHENTICATED,
    limit="20/minute",
    body=UpdateAddress,
    reply=AddressView,
)
def update_address(ctx: Context, address_id: UUID, body: dict[str, Any]) -> queries.SavedAddress:
    """Change a saved address."""
    return operations.update_address(
        ctx.session, user_id=ctx.user.id, address_id=address_id, fields=body, now=ctx.now
    )


@area.delete("/me/addresses/<uuid:address_id>", auth=AUTHENTICATED, limit="20/minute", reply=Deleted)
def delete_address(ctx: Context, address_id: UUID) -> dict[str, Any]:
    """Remove a saved address."""
    operations.remove_address(ctx.session, user_id=ctx.user.id, address_id=address_id, now=ctx.now)
    return {"deleted": True, "id": address_id}
