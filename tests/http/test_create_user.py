"""The function create-user: callers, the three shapes of bodies, and hostile input."""

import base64
import gzip
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy.dialects.postgresql import insert
from werkzeug.test import TestResponse

from blueprints.areas import AREAS
from marketplace.identity.models import ErasedIdentity, Profile
from marketplace.infra.db import Database
from marketplace.platform.models import CampusEmailDomain
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.function_calls import (
    FUNCTIONS_KEY,
    KEYED,
    SIGNING_SECRET,
    encode,
    hook_body,
    signed,
    trigger_body,
)
from tests.support.market import Bearer, Market
from tests.support.probes import assert_problem, changed
from tests.support.product_api import faults_of
from tests.support.referrals import code_of, person

PATH = "/functions/v1/create-user"
OTHER_SECRET = f"v1,whsec_{base64.b64encode(b'another-secret-0123456789abcdefg').decode()}"


def post(
    client: FlaskClient, body: bytes | dict[str, Any], headers: dict[str, str] | None = None
) -> TestResponse:
    data = body if isinstance(body, bytes) else encode(body)
    return client.post(
        PATH, data=data, content_type="application/json", headers=KEYED if headers is None else headers
    )


def profile_of(database: Database, user_id: UUID) -> Profile | None:
    with database.reading() as session:
        return session.get(Profile, user_id)


def own_body(user_id: UUID, **fields: Any) -> dict[str, Any]:
    return {"userId": str(user_id)} | fields


# Callers


def test_signed_hook_creates_the_profile(client: FlaskClient, database: Database, market: Market) -> None:
    domain, user_id = f"{uuid4().hex}.example", uuid4()
    with database.transaction() as session:
        session.execute(insert(CampusEmailDomain).values(domain=domain, campus_id=market.campus_id))
    body = encode(hook_body(user_id, email=f"Ada@{domain}", phone="2348031234567"))

    response = post(client, body, signed(body))

    assert response.status_code == 200
    assert response.content_type.startswith("application/json")
    assert response.json == {
        "ignored": False,
        "userId": str(user_id),
        "created": True,
        "referralStatus": None,
        "referralRejection": None,
    }
    profile = profile_of(database, user_id)
    assert profile is not None
    assert (profile.role, profile.campus_id, profile.account_status) == ("buyer", market.campus_id, "active")
    assert (profile.email, profile.name, profile.phone) == (f"Ada@{domain}", "Ada Obi", "+2348031234567")
    assert post(client, body, signed(body)).json["created"] is False


BODY = encode(own_body(uuid4()))
NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {FUNCTIONS_KEY[:-1]}"},
        {"Authorization": f"Bearer {FUNCTIONS_KEY}x"},
        {"Authorization": f"Basic {FUNCTIONS_KEY}"},
        {"Authorization": FUNCTIONS_KEY},
        {"Authorization": "Bearer é"},
        signed(BODY, secret=OTHER_SECRET),
        signed(BODY + b" "),
        # Far enough for a test that runs long after its collection.
        signed(BODY, at=NOW - timedelta(hours=3)),
        signed(BODY, at=NOW + timedelta(hours=3)),
        signed(BODY, timestamp="nan"),
        signed(BODY, timestamp="1e99"),
        signed(BODY, timestamp="soon"),
        signed(BODY, id="msg_of_another_call"),
        signed(BODY, id=""),
        signed(BODY, signature=""),
        signed(BODY, signature="v1"),
        signed(BODY, signature="v1,*"),
        signed(BODY, signature="v1,é"),
        signed(BODY, signature="v2," + signed(BODY)["webhook-signature"].partition(",")[2]),
        signed(BODY, signature=" ".join(["v1,AAAA"] * 200)),
    ],
)
def test_call_without_valid_key_or_signature_is_refused(client: FlaskClient, headers: dict[str, str]) -> None:
    response = post(client, BODY, headers)
    assert_problem(response, 401, "AUTH_UNAUTHORIZED")
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_access_token_is_no_functions_key(client: FlaskClient, bearer: Bearer, market: Market) -> None:
    assert_problem(post(client, BODY, bearer(market.staff("admin"))), 401, "AUTH_UNAUTHORIZED")


def test_signature_covers_raw_bytes(client: FlaskClient) -> None:
    body = b' {"userId":"%s" , "x":1}' % str(uuid4()).encode()
    headers = signed(body)
    assert post(client, body, headers).status_code == 422  # authenticated
    assert post(client, body.replace(b" ,", b","), headers).status_code == 401
    packed = gzip.compress(body)
    assert post(client, packed, headers | {"Content-Encoding": "gzip"}).status_code == 415
    assert post(client, b"\xff\xfe", headers).status_code == 401


def test_any_of_several_signatures_keys_and_secrets_is_accepted(services: Services) -> None:
    app = checked_app(
        changed(
            services,
            functions_key=f"{'k' * 32},{FUNCTIONS_KEY}",
            functions_signing_secrets=f"{OTHER_SECRET} {SIGNING_SECRET}",
        ),
        AREAS,
    )
    client = app.test_client()
    several = signed(BODY)
    several["webhook-signature"] = f"v1,AAAA v1a,x== {several['webhook-signature']}"
    for headers in (
        {"Authorization": f"bearer {'k' * 32}"},
        KEYED,
        signed(BODY),
        signed(BODY, secret=OTHER_SECRET),
        several,
        {"Authorization": "Bearer other"} | signed(BODY),
    ):
        assert post(client, BODY, headers).status_code == 200


def test_service_without_key_and_secret_refuses_all_calls(services: Services) -> None:
    client = checked_app(
        changed(services, functions_key="", functions_signing_secrets=""), AREAS
    ).test_client()
    for headers in ({}, KEYED, signed(BODY), {"Authorization": "Bearer "}):
        assert_problem(post(client, BODY, headers), 500, "INTERNAL_ERROR")


def test_service_without_signing_secret_accepts_no_signature(services: Services) -> None:
    client = checked_app(changed(services, functions_signing_secrets=""), AREAS).test_client()
    assert_problem(post(client, BODY, signed(BODY)), 401, "AUTH_UNAUTHORIZED")
    assert post(client, BODY, KEYED).status_code == 200


# Shapes


@pytest.fixture
def code(database: Database) -> str:
    """The referral code of an active user."""
    return database.in_transaction(
        lambda session: code_of(session, person(session, created_at=datetime.now(UTC)))
    )


def test_all_shapes_create_the_same_user(client: FlaskClient, database: Database, code: str) -> None:
    metadata = {"full_name": "  Ada\u202e \u200bObi\x07 ", "referral_code": code}
    ids = [uuid4() for _ in range(3)]
    record = trigger_body(ids[1])["record"] | {
        "raw_user_meta_data": metadata,
        "phone": "+2348031234567",
        "email": f"two-{ids[1]}@unilag.example",
    }
    bodies = [
        hook_body(
            ids[0], user_metadata=metadata, phone="2348031234560", email=f"one-{ids[0]}@unilag.example"
        ),
        trigger_body(ids[1], record=record),
        own_body(ids[2], name="Ada Obi", email=f"three-{ids[2]}@unilag.example", referralCode=code),
    ]
    for user_id, body in zip(ids, bodies, strict=True):
        response = post(client, body)
        assert response.status_code == 200, response.text
        assert (response.json["userId"], response.json["referralStatus"]) == (str(user_id), "pending")
        profile = profile_of(database, user_id)
        assert profile is not None
        assert profile.name == "Ada Obi"


@pytest.mark.parametrize(
    "body",
    [
        trigger_body(uuid4(), type="UPDATE"),
        trigger_body(uuid4(), type="DELETE", record=None, old_record={"id": str(uuid4())}),
        trigger_body(uuid4(), schema="public"),
        trigger_body(uuid4(), table="orders", record={"id": 7, "email": ["any"]}),
        hook_body(uuid4()) | {"metadata": {"name": "send-sms"}},
    ],
)
def test_other_events_are_acknowledged_and_ignored(client: FlaskClient, body: dict[str, Any]) -> None:
    response = post(client, body)
    assert (response.status_code, response.json) == (200, {"ignored": True})


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({}, ["body"]),
        ({"noSuchThing": 1}, ["body"]),
        (hook_body(uuid4()) | own_body(uuid4()), ["body"]),
        (hook_body(uuid4()) | {"type": "INSERT"}, ["body"]),
        ({"user": hook_body(uuid4())["user"]}, ["metadata"]),
        ({"metadata": {"name": "before-user-created"}}, ["user"]),
        (hook_body("7"), ["user.id"]),
        (hook_body(uuid4().hex), ["user.id"]),
        (hook_body(uuid4(), id=None), ["user.id"]),
        (hook_body(uuid4(), email="a" * 490 + "@b.example"), ["user.email"]),
        (hook_body(uuid4(), email="a" * 246 + "@b.exampl"), ["user.email"]),
        (hook_body(uuid4(), email="ada"), ["user.email"]),
        (hook_body(uuid4(), email="ada\0@b.example"), ["user.email"]),
        (hook_body(uuid4(), email=["ada@b.example"]), ["user.email"]),
        (hook_body(uuid4(), user_metadata=[]), ["user.user_metadata"]),
        (hook_body(uuid4(), user_metadata={"full_name": 7}), ["user.user_metadata.full_name"]),
        (hook_body(uuid4(), user_metadata={"full_name": "x" * 1_001}), ["user.user_metadata.full_name"]),
        (trigger_body(uuid4(), record=None), ["record.id"]),
        (trigger_body(uuid4(), record={"id": 7}), ["record.id"]),
        (trigger_body(uuid4(), record={"id": str(uuid4()), "email": "x"}), ["record.email"]),
        (own_body(uuid4(), noSuchThing=1), ["noSuchThing"]),
        ({"userId": "7"}, ["userId"]),
        (own_body(uuid4(), phone="123"), ["phone"]),
        (own_body(uuid4(), name="x" * 101), ["name"]),
        (own_body(uuid4(), referralCode="x" * 41), ["referralCode"]),
    ],
)
def test_invalid_bodies_are_refused_by_field(
    client: FlaskClient, body: dict[str, Any], faults: list[str]
) -> None:
    response = post(client, body)
    assert response.status_code == 422, response.text
    assert faults_of(response) == faults


def test_useless_details_of_a_provider_prevent_no_sign_up(client: FlaskClient, database: Database) -> None:
    user_id = uuid4()
    metadata = {"full_name": "\u202e\u200b", "referral_code": "\0" * 50, "avatar": {"any": []}}

    response = post(
        client, hook_body(user_id, email="", phone="123", user_metadata=metadata, is_anonymous=True)
    )

    assert response.status_code == 200
    assert response.json["referralRejection"] == "unknown_code"
    profile = profile_of(database, user_id)
    assert profile is not None
    assert (profile.email, profile.name, profile.phone, profile.campus_id) == (None, None, None, None)


def test_long_and_decomposed_names_are_shortened_and_composed(
    client: FlaskClient, database: Database
) -> None:
    user_id = uuid4()
    post(client, hook_body(user_id, user_metadata={"full_name": "Ade\u0301 " + "x" * 200}))
    profile = profile_of(database, user_id)
    assert profile is not None
    assert profile.name == ("Ad\u00e9 " + "x" * 200)[:100]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"[]", 422),
        (b'{"user":' * 5_000 + b"1" + b"}" * 5_000, 400),
        (b'{"metadata":{"name":"before-user-created"},"user":' + b"[" * 900 + b"]" * 900 + b"}", 422),
        (encode(hook_body(uuid4(), padding="x" * 1_000_000)), 200),
        (b" " * (1024 * 1024 + 1), 413),
    ],
    ids=["empty", "truncated", "array", "deep", "deep user", "1 MB", "above 1 MB"],
)
def test_unusual_signed_bodies_get_a_clear_answer(client: FlaskClient, body: bytes, status: int) -> None:
    assert post(client, body, signed(body)).status_code == status


# Refusals


def refused(response: TestResponse, reason: str) -> None:
    assert_problem(response, 403, "AUTH_FORBIDDEN")
    assert response.json["reason"] == reason
    assert response.json["error"] == {"http_code": 403, "message": response.json["detail"]}


def test_erased_person_can_neither_sign_up_nor_use_a_token(
    client: FlaskClient, database: Database, bearer: Bearer
) -> None:
    user_id = uuid4()
    with database.transaction() as session:
        session.add(ErasedIdentity(subject_index=str(user_id), erased_at=datetime.now(UTC)))

    for body in (hook_body(user_id), trigger_body(user_id), own_body(user_id)):
        refused(post(client, body), "account-erased")
    assert_problem(client.get("/api/users/me", headers=bearer(user_id)), 403, "AUTH_FORBIDDEN")
    # A public route only looks for the caller's quota.
    assert client.get("/api/products", headers=bearer(user_id)).status_code == 200
    assert client.get("/no/such/path", headers=bearer(user_id)).status_code == 404
    assert profile_of(database, user_id) is None


@pytest.mark.parametrize(
    ("email", "barred"),
    [
        ("a@spam.example", True),
        ("a@SPAM.example", True),
        ("a@deep.spam.example", True),
        ("a@notspam.example", False),
        ("a@spam.example.org", False),
    ],
)
def test_barred_domains_cannot_sign_up(
    services: Services, database: Database, email: str, barred: bool
) -> None:
    client = checked_app(changed(services, barred_email_domains=("spam.example",)), AREAS).test_client()
    user_id = uuid4()

    response = post(client, hook_body(user_id, email=email))

    if barred:
        refused(response, "email-domain-barred")
    else:
        assert response.status_code == 200
    assert (profile_of(database, user_id) is None) == barred


def test_provisioning_after_the_first_token_evaluates_the_referral(
    client: FlaskClient, bearer: Bearer, code: str
) -> None:
    user_id = uuid4()
    assert client.get("/api/users/me", headers=bearer(user_id)).status_code == 200

    response = post(client, own_body(user_id, referralCode=code, name="Ada Obi"))

    assert (response.json["created"], response.json["referralStatus"]) == (False, "pending")
    assert client.get("/api/wallet", headers=bearer(user_id)).json["data"]["fromRewardsMinor"] == 50_000
    assert client.get("/api/users/me", headers=bearer(user_id)).json["data"]["name"] == "Ada Obi"
    [entry] = client.get("/api/transactions", headers=bearer(user_id)).json["data"]
    assert (entry["kind"], entry["description"]) == ("reward", "Reward for signing up with a referral code")


# Referral routes


def test_own_referrals_are_shown_and_code_is_replaced(
    client: FlaskClient, bearer: Bearer, market: Market
) -> None:
    headers = bearer(market.person())
    first = client.get("/api/users/me/referrals", headers=headers).json["data"]
    newcomer = uuid4()
    assert post(client, own_body(newcomer, referralCode=first["code"])).json["referralStatus"] == "pending"

    second = client.post("/api/users/me/referrals/code", headers=headers)

    assert second.status_code == 201
    shown = client.get("/api/users/me/referrals", headers=headers).json["data"]
    assert shown == second.json["data"]
    assert shown["code"] != first["code"]
    assert (shown["pendingCount"], shown["rewardedCount"], shown["earnedMinor"]) == (1, 0, 0)
    assert client.get("/api/users/me", headers=headers).json["data"]["referralCode"] == shown["code"]
