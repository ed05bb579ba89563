"""Rotation of the keys of encrypted columns."""

import base64
import secrets
from collections.abc import Iterator
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.infra.db import Database
from marketplace.infra.encryption import EncryptionError, make_keyring, use_keyring
from marketplace.models import metadata
from marketplace.notifications.devices import register_device
from marketplace.notifications.models import UserDevice
from marketplace.privacy import key_rotation
from marketplace.privacy.key_rotation import EncryptedColumn
from tests.support.encryption_keys import BLIND_INDEX_KEY, DATA_ENCRYPTION_KEYS
from tests.support.purchases import NOW, make_person

NEW_KEY = f"new:{base64.b64encode(secrets.token_bytes(32)).decode()}"


@pytest.fixture(autouse=True)
def _keys_of_the_tests() -> Iterator[None]:
    yield
    use_keyring(make_keyring(DATA_ENCRYPTION_KEYS, BLIND_INDEX_KEY))


@pytest.fixture
def column() -> EncryptedColumn:
    [found] = [
        encrypted
        for encrypted in key_rotation.list_encrypted_columns(metadata.tables)
        if encrypted.name == "user_devices.token"
    ]
    return found


def add_device(database: Database, token: str) -> UUID:
    with database.transaction() as session:
        person = make_person(session)
        device, _ = register_device(
            session, user_id=person.id, name=None, subscription=None, token=token, now=NOW
        )
        return device.id


def stored_token(database: Database, device_id: UUID) -> str:
    with database.reading() as session:
        found = session.scalar(text("SELECT token FROM user_devices WHERE id = :id"), {"id": device_id})
    return str(found)


def test_all_encrypted_columns_are_rotated() -> None:
    names = [encrypted.name for encrypted in key_rotation.list_encrypted_columns(metadata.tables)]
    assert names == [
        "addresses.phone",
        "former_contacts.contact",
        "idempotency_keys.response_text",
        "orders.delivery_phone",
        "payout_accounts.account_number",
        "person_keys.secret",
        "phone_codes.phone",
        "profiles.phone",
        "support_contacts.sender",
        "support_contacts.phone",
        "transfer_accounts.account_number",
        "user_devices.token",
        "vendor_applications.account_number",
    ]


def test_values_get_the_first_key_and_stay_readable(database: Database, column: EncryptedColumn) -> None:
    token = secrets.token_hex(40)
    device_id = add_device(database, token)
    assert stored_token(database, device_id).startswith("v1:tests:")
    use_keyring(make_keyring(f"{NEW_KEY},{DATA_ENCRYPTION_KEYS}", BLIND_INDEX_KEY))
    with database.transaction() as session:
        stale = key_rotation.count_stale_values(session, [column])["user_devices.token"]
    steps: list[int] = []
    assert key_rotation.rotate_column(database, column, advance=steps.append) == stale == sum(steps) > 0
    assert stored_token(database, device_id).startswith("v1:new:")
    assert key_rotation.rotate_column(database, column, advance=steps.append) == 0
    with database.reading() as session:
        assert session.get_one(UserDevice, device_id).token == token
    # The device is still found by the blind index.
    with database.transaction() as session:
        again, is_new = register_device(
            session,
            user_id=make_person(session).id,
            name=None,
            subscription=None,
            token=token,
            now=NOW,
        )
        assert (again.id == device_id) or is_new
    use_keyring(make_keyring(f"{DATA_ENCRYPTION_KEYS},{NEW_KEY}", BLIND_INDEX_KEY))
    key_rotation.rotate_column(database, column, advance=steps.append)
    assert stored_token(database, device_id).startswith("v1:tests:")


def test_interrupted_rotation_goes_on(
    database: Database, column: EncryptedColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = [add_device(database, secrets.token_hex(40)) for _ in range(3)]
    monkeypatch.setattr(key_rotation, "BATCH_ROWS", 1)
    use_keyring(make_keyring(f"{NEW_KEY},{DATA_ENCRYPTION_KEYS}", BLIND_INDEX_KEY))

    def interrupt(_steps: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        key_rotation.rotate_column(database, column, advance=interrupt)
    key_rotation.rotate_column(database, column, advance=lambda _steps: None)
    assert all(stored_token(database, device).startswith("v1:new:") for device in devices)
    use_keyring(make_keyring(f"{DATA_ENCRYPTION_KEYS},{NEW_KEY}", BLIND_INDEX_KEY))
    key_rotation.rotate_column(database, column, advance=lambda _steps: None)


def test_missing_key_stops_the_rotation_and_changes_nothing(
    database: Database, column: EncryptedColumn
) -> None:
    device_id = add_device(database, secrets.token_hex(40))
    use_keyring(make_keyring(NEW_KEY, BLIND_INDEX_KEY))
    with pytest.raises(EncryptionError, match="tests"):
        key_rotation.rotate_column(database, column, advance=lambda _steps: None)
    assert stored_token(database, device_id).startswith("v1:tests:")
