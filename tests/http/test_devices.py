"""Devices for push notifications over HTTP: register, move, list, limit and remove."""

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flask.testing import FlaskClient
from sqlalchemy import text

from blueprints.notifications.schemas import DeviceView
from marketplace.infra.db import Database
from marketplace.infra.encryption_keys import derive_public_point
from marketplace.kernel.errors import ValidationError
from marketplace.notifications.devices import MAX_DEVICES, WebPushSubscription
from sandbox.providers.inbox.web_push import decode
from tests.support.market import Bearer, Market
from tests.support.probes import assert_problem, faults

PATH = "/api/users/me/devices"
ENDPOINT = "https://push.example.com/send/"


def encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


POINT = (
    ec.generate_private_key(ec.SECP256R1())
    .public_key()
    .public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
)
KEYS = {"p256dh": encode(POINT), "auth": encode(bytes(16))}


def browser(endpoint: str | None = None, **keys: str) -> dict[str, Any]:
    address = ENDPOINT + uuid4().hex if endpoint is None else endpoint
    return {"kind": "web_push", "subscription": {"endpoint": address, "keys": KEYS | keys}}


def app(token: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"kind": "fcm", "token": token or uuid4().hex} | fields


@pytest.fixture
def headers(market: Market, bearer: Bearer) -> dict[str, str]:
    return bearer(market.person())


@pytest.fixture
def other(market: Market, bearer: Bearer) -> dict[str, str]:
    return bearer(market.person())


def register(client: FlaskClient, headers: dict[str, str], body: dict[str, Any]) -> Any:
    answer = client.post(PATH, json=body, headers=headers)
    assert answer.status_code == 201, answer.json
    assert not DeviceView().validate(answer.json["data"])
    return answer.json["data"]


def listed(client: FlaskClient, headers: dict[str, str]) -> list[str]:
    answer = client.get(PATH, headers=headers)
    assert not DeviceView(many=True).validate(answer.json["data"])
    return [device["id"] for device in answer.json["data"]]


def test_devices_are_listed_without_secrets_and_stored_encrypted(
    client: FlaskClient, headers: dict[str, str], database: Database
) -> None:
    body = browser() | {"name": "  Firefox \U0001f98a  مرحبا "}
    device = register(client, headers, body)
    assert (device["kind"], device["name"], device["host"]) == (
        "web_push",
        "Firefox \U0001f98a مرحبا",
        "push.example.com",
    )
    token = uuid4().hex
    native = register(client, headers, app(token))
    assert native["host"] is None
    assert listed(client, headers) == [native["id"], device["id"]]
    shown = client.get(PATH, headers=headers).text
    with database.reading() as session:
        stored = str(session.execute(text("SELECT array_agg(d::text) FROM user_devices d")).scalar_one())
    for secret in (body["subscription"]["endpoint"].rpartition("/")[2], KEYS["p256dh"], token):
        assert secret not in shown
        assert secret not in stored


def test_registered_device_moves_to_the_latest_account(
    client: FlaskClient, headers: dict[str, str], other: dict[str, str]
) -> None:
    for body in (browser(), app()):
        first = register(client, headers, body)
        assert register(client, headers, body | {"name": "Phone"})["id"] == first["id"]
        assert register(client, other, body)["id"] == first["id"]
        assert first["id"] not in listed(client, headers)
        assert first["id"] in listed(client, other)
    # The same text is another device of another kind.
    token = uuid4().hex
    assert register(client, headers, app(token))["id"] != register(client, headers, app(token + "x"))["id"]


def test_concurrent_registrations_leave_one_owner(
    client: FlaskClient, market: Market, bearer: Bearer, database: Database
) -> None:
    people = [bearer(market.person()) for _ in range(4)]
    body = app()
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda headers: register(client, headers, body)["id"], people * 3))
    assert len(set(ids)) == 1
    with database.reading() as session:
        count = session.execute(
            text("SELECT count(*) FROM user_devices WHERE id = :id"), {"id": ids[0]}
        ).scalar_one()
    assert count == 1


def test_device_beyond_the_limit_removes_the_least_recently_seen(
    client: FlaskClient, headers: dict[str, str]
) -> None:
    first = register(client, headers, app())["id"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: register(client, headers, app()), range(MAX_DEVICES + 3)))
    devices = listed(client, headers)
    assert len(devices) == MAX_DEVICES
    assert first not in devices


def test_removed_device_is_gone_and_devices_of_others_are_not_found(
    client: FlaskClient, headers: dict[str, str], other: dict[str, str]
) -> None:
    device_id = register(client, headers, app())["id"]
    for caller, target in ((other, device_id), (headers, uuid4())):
        assert_problem(client.delete(f"{PATH}/{target}", headers=caller), 404, "RESOURCE_NOT_FOUND")
    answer = client.delete(f"{PATH}/{device_id}", headers=headers)
    assert answer.json["data"] == {"id": device_id, "deleted": True}
    assert listed(client, headers) == []


def test_restricted_person_lists_and_removes_but_does_not_register(
    client: FlaskClient, market: Market, bearer: Bearer, database: Database
) -> None:
    user_id: UUID = market.person()
    headers = bearer(user_id)
    device_id = register(client, headers, app())["id"]
    with database.transaction() as session:
        session.execute(
            text("UPDATE profiles SET account_status = 'restricted' WHERE id = :id"), {"id": user_id}
        )
    assert listed(client, headers) == [device_id]
    assert_problem(client.post(PATH, json=app(), headers=headers), 403, "AUTH_FORBIDDEN")
    assert client.delete(f"{PATH}/{device_id}", headers=headers).status_code == 200
    assert client.get(PATH).status_code == 401


OFF_CURVE = encode(POINT[:-1] + bytes([POINT[-1] ^ 1]))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"kind": "fcm"}, "token"),
        ({"kind": "web_push"}, "subscription"),
        ({"kind": "sms", "token": "x" * 20}, "kind"),
        (app() | {"subscription": browser()["subscription"]}, "token"),
        (app("x" * 19), "token"),
        (app("x" * 4_097), "token"),
        (app("x" * 20 + "\u00e9"), "token"),
        (app(name=""), "name"),
        (app(name="x" * 81), "name"),
        (app(userId=str(uuid4())), "userId"),
        (browser("http://push.example.com/x"), "subscription.endpoint"),
        (browser("https://localhost/x"), "subscription.endpoint"),
        (browser("https://127.0.0.1/x"), "subscription.endpoint"),
        (browser("https://[::1]/x"), "subscription.endpoint"),
        (browser("https://2130706433/x"), "subscription.endpoint"),
        (browser("https://10.1/x"), "subscription.endpoint"),
        (browser("https://db.internal/x"), "subscription.endpoint"),
        (browser("https://push.example.com:8443/x"), "subscription.endpoint"),
        (browser("https://user@push.example.com/x"), "subscription.endpoint"),
        (browser("https://push.example.com/" + "x" * 2_048), "subscription.endpoint"),
        (browser("https://push.example.com:99999/x"), "subscription.endpoint"),
        (browser(p256dh=encode(POINT[:-1])), "subscription.keys.p256dh"),
        (browser(p256dh=OFF_CURVE), "subscription.keys.p256dh"),
        (browser(p256dh="!"), "subscription.keys.p256dh"),
        (browser(auth=encode(bytes(15))), "subscription.keys.auth"),
        (browser(auth="A"), "subscription.keys.auth"),
    ],
)
def test_faulty_device_is_refused(
    client: FlaskClient, headers: dict[str, str], body: dict[str, Any], name: str
) -> None:
    assert faults(client.post(PATH, json=body, headers=headers)) == [name]


def test_public_key_of_web_push_is_null_while_not_configured(
    client: FlaskClient, headers: dict[str, str]
) -> None:
    assert client.get(f"{PATH}/push-key", headers=headers).get_json()["data"] == {"publicKey": None}


def test_public_key_belongs_to_the_private_key() -> None:
    # The private key 1 has the base point of the curve as the public key.
    private_key = encode((1).to_bytes(32))
    base_point = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b"
    assert decode(derive_public_point(private_key)).hex().startswith(base_point)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9/push/send/x", "http://127.0.0.1:9/pushed/x"])
def test_local_push_service_is_accepted_only_if_configured(endpoint: str) -> None:
    subscription = WebPushSubscription(endpoint, KEYS["p256dh"], KEYS["auth"])
    with pytest.raises(ValidationError):
        subscription.check(local_push_url="")
    if endpoint.endswith("/push/send/x"):
        subscription.check(local_push_url="http://127.0.0.1:9/push")
    else:
        with pytest.raises(ValidationError):
            subscription.check(local_push_url="http://127.0.0.1:9/push")
