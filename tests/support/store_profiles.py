"""Store profiles over HTTP: reading, changing, and the stored rows."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select

from marketplace.payouts.models import PayoutAccount
from marketplace.vendors.models import VendorProfile
from tests.support.shop_client import ShopClient

GTB = {"accountNumber": "2234567890", "bankCode": "058"}
ZENITH = {"accountNumber": "2234567891", "bankCode": "057"}
OWN = "/api/wallet/bank-account"


def wire(moment: datetime) -> str:
    """Format a time as in responses."""
    return moment.isoformat().replace("+00:00", "Z")


def path_of(desk: ShopClient, store_id: UUID | None = None) -> str:
    """Give the path of a store's profile."""
    return f"/api/vendors/profile/{store_id or desk.shop.store_id}"


def put(
    desk: ShopClient, body: dict[str, Any], *, by: dict[str, str] | None = None, headers: dict[str, str] | None = None
) -> Any:  # fmt: skip
    """Send a change of a profile."""
    return desk.client.put(path_of(desk), json=body, headers=(by or desk.vendor) | (headers or {}))


def changed(desk: ShopClient, body: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Change a profile and return the new profile."""
    answer = put(desk, body, **how)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json["data"]
    return data


def shown(desk: ShopClient, by: dict[str, str] | None = None) -> dict[str, Any]:
    """Show a profile."""
    answer = desk.client.get(path_of(desk), headers=by or {})
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json["data"]
    return data


def set_columns(desk: ShopClient, **columns: Any) -> None:
    """Change the store behind the API."""
    with desk.database.transaction() as session:
        store = session.get_one(VendorProfile, desk.shop.store_id)
        for name, value in columns.items():
            setattr(store, name, value)


def accounts_of(desk: ShopClient, user_id: UUID) -> list[dict[str, Any]]:
    """Give somebody's bank accounts, the earliest first."""
    with desk.database.reading() as session:
        accounts = PayoutAccount.__table__
        rows = session.execute(select(accounts).where(accounts.c.user_id == user_id).order_by(accounts.c.id))
        return [dict(row) for row in rows.mappings()]


def phone_of(desk: ShopClient, phone: str | None) -> None:
    """Change the vendor's phone number."""
    answer = desk.client.put("/api/users/me", json={"phone": phone}, headers=desk.vendor)
    assert answer.status_code == 200, answer.text
