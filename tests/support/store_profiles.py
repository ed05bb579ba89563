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


def format_time(moment: datetime) -> str:
    """Format a time as in responses."""
    return moment.isoformat().replace("+00:00", "Z")


def profile_path(shop_client: ShopClient, store_id: UUID | None = None) -> str:
    """Return the path of a store's profile."""
    return f"/api/vendors/profile/{store_id or shop_client.shop.store_id}"


def put_profile(
    shop_client: ShopClient,
    body: dict[str, Any],
    *,
    by: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Any:
    """Send a PUT request with changes of a profile."""
    return shop_client.client.put(
        profile_path(shop_client), json=body, headers=(by or shop_client.vendor) | (headers or {})
    )


def change_profile(shop_client: ShopClient, body: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Change a profile and return the new profile."""
    answer = put_profile(shop_client, body, **how)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json["data"]
    return data


def fetch_profile(shop_client: ShopClient, by: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a profile from the API."""
    answer = shop_client.client.get(profile_path(shop_client), headers=by or {})
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json["data"]
    return data


def set_store_columns(shop_client: ShopClient, **columns: Any) -> None:
    """Change columns of the store without the API."""
    with shop_client.database.transaction() as session:
        store = session.get_one(VendorProfile, shop_client.shop.store_id)
        for name, value in columns.items():
            setattr(store, name, value)


def accounts_of(shop_client: ShopClient, user_id: UUID) -> list[dict[str, Any]]:
    """List a user's bank accounts, oldest first."""
    with shop_client.database.reading() as session:
        accounts = PayoutAccount.__table__
        rows = session.execute(select(accounts).where(accounts.c.user_id == user_id).order_by(accounts.c.id))
        return [dict(row) for row in rows.mappings()]


def set_phone(shop_client: ShopClient, phone: str | None) -> None:
    """Change the vendor's phone number."""
    answer = shop_client.client.put("/api/users/me", json={"phone": phone}, headers=shop_client.vendor)
    assert answer.status_code == 200, answer.text
