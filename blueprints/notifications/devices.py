"""Routes of devices that receive push notifications."""

from typing import Any
from uuid import UUID

from blueprints.http import (
    AUTHENTICATED,
    AUTHENTICATED_ANY_STATUS,
    Context,
    ContractBlueprint,
    Deleted,
    SharedLimit,
)
from blueprints.notifications.schemas import DeviceView, PushKey, RegisterDevice
from marketplace.notifications import devices
from marketplace.notifications.models import UserDevice

area = ContractBlueprint("devices", "/api/users/me/devices", "Your devices for push notifications")


@area.post("", auth=AUTHENTICATED, limit="20/minute", body=RegisterDevice, reply=DeviceView, status=201)
def register_device(ctx: Context, body: dict[str, Any]) -> UserDevice:
    """Register this device for push notifications. A device that another account registered moves to your account."""
    subscription = body.get("subscription")
    device, _is_new = devices.register_device(
        ctx.session,
        user_id=ctx.user.id,
        name=body.get("name"),
        subscription=None
        if subscription is None
        else devices.WebPushSubscription(endpoint=subscription["endpoint"], **subscription["keys"]),
        token=body.get("token"),
        now=ctx.now,
        local_push_url=ctx.services.settings.web_push_url,
    )
    return device


@area.get("/push-key", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER, reply=PushKey)
def get_push_key(ctx: Context) -> dict[str, str | None]:
    """Get the server's public key, which a browser needs to subscribe (`applicationServerKey`)."""
    return {"public_key": ctx.services.settings.vapid_public_key}


@area.get("", auth=AUTHENTICATED_ANY_STATUS, limit=SharedLimit.CALLER_TIER, reply=DeviceView(many=True))
def list_devices(ctx: Context) -> list[UserDevice]:
    """List your devices, the latest seen first."""
    return devices.list_devices(ctx.session, user_id=ctx.user.id)


@area.delete("/<uuid:device_id>", auth=AUTHENTICATED_ANY_STATUS, limit="20/minute", reply=Deleted)
def remove_device(ctx: Context, device_id: UUID) -> dict[str, Any]:
    """Remove a device. The device receives no more push notifications."""
    devices.remove_device(ctx.session, user_id=ctx.user.id, device_id=device_id)
    return {"id": device_id, "deleted": True}
