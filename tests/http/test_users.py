"""The caller's account and addresses over HTTP."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.users.schemas import AddressView, Me
from marketplace.identity.operations import MAX_ADDRESSES
from tests.support.market import Bearer, Market
from tests.support.product_api import faults_of

ME = "/api/users/me"
ADDRESSES = "/api/users/me/addresses"


@pytest.fixture
def user(market: Market) -> UUID:
    return market.person(name="Amara", email="amara@example.edu")


@pytest.fixture
def headers(user: UUID, bearer: Bearer) -> dict[str, str]:
    return bearer(user)


def add_address(client: FlaskClient, headers: dict[str, str], **fields: Any) -> Any:
    response = client.post(ADDRESSES, json={"hostel": "Moremi Hall"} | fields, headers=headers)
    assert response.status_code == 201, response.json
    assert not AddressView().validate(response.json["data"])
    return response.json["data"]


def fetch_addresses(client: FlaskClient, headers: dict[str, str], **query: Any) -> Any:
    response = client.get(ADDRESSES, headers=headers, query_string=query)
    assert response.status_code == 200
    assert not AddressView(many=True).validate(response.json["data"])
    return response.json


# The account


def test_account_is_shown_to_owner(
    client: FlaskClient, market: Market, user: UUID, headers: dict[str, str]
) -> None:
    response = client.get(ME, headers=headers)

    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    data = response.json["data"]
    assert not Me().validate(data)
    assert (data["id"], data["name"], data["role"]) == (str(user), "Amara", "buyer")
    assert data["campus"]["id"] == data["campusId"] == str(market.campus_id)
    assert (data["permissions"], data["badges"]) == ([], [])


def test_profile_is_created_on_first_request(client: FlaskClient, bearer: Bearer) -> None:
    user_id = uuid4()
    data = client.get(ME, headers=bearer(user_id)).json["data"]
    assert not Me().validate(data)
    assert (data["id"], data["role"], data["accountStatus"]) == (str(user_id), "buyer", "active")


def test_account_of_staff_lists_permissions(client: FlaskClient, market: Market, bearer: Bearer) -> None:
    data = client.get(ME, headers=bearer(market.staff("support"))).json["data"]
    assert data["staffRole"] == "support"
    assert set(data["permissions"]) == {"canManageSupport", "canManageDisputes"}


@pytest.mark.parametrize("status", ["restricted", "suspended"])
def test_barred_account_can_be_read_but_not_changed(
    client: FlaskClient, market: Market, bearer: Bearer, status: str
) -> None:
    barred = bearer(market.person(account_status=status, status_reason="Why."))

    shown = client.get(ME, headers=barred)
    assert shown.status_code == 200
    assert (shown.json["data"]["accountStatus"], shown.json["data"]["statusReason"]) == (status, "Why.")
    for method, path in (("put", ME), ("get", ADDRESSES), ("post", ADDRESSES)):
        refused = getattr(client, method)(path, headers=barred)
        assert (refused.status_code, refused.json["code"]) == (403, "AUTH_FORBIDDEN")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", ME),
        ("put", ME),
        ("get", ADDRESSES),
        ("post", ADDRESSES),
        ("put", f"{ADDRESSES}/00000000-0000-4000-8000-000000000000"),
        ("delete", f"{ADDRESSES}/00000000-0000-4000-8000-000000000000"),
    ],
)
def test_request_without_token_is_unauthorized(client: FlaskClient, method: str, path: str) -> None:
    response = getattr(client, method)(path)
    assert (response.status_code, response.json["code"]) == (401, "AUTH_UNAUTHORIZED")


def test_account_update_changes_only_given_fields(
    client: FlaskClient, market: Market, headers: dict[str, str]
) -> None:
    campus_id = str(market.campus())

    for change, expected in (
        ({"name": "  Amara \t Okafor "}, {"name": "Amara Okafor"}),
        ({"phone": "0803 123 4567"}, {"phone": "+2348031234567"}),
        ({"campusId": campus_id}, {"campusId": campus_id}),
        ({"avatarUrl": "https://pictures.example/a.png"}, {"avatarUrl": "https://pictures.example/a.png"}),
        ({"name": None, "phone": None, "avatarUrl": None}, {}),
        ({"clear": ["phone", "avatarUrl"]}, {"phone": None, "avatarUrl": None}),
    ):
        before = client.get(ME, headers=headers).json["data"]
        response = client.put(ME, json=change, headers=headers)
        assert response.status_code == 200
        data = response.json["data"]
        assert not Me().validate(data)
        moving = {"updatedAt", "campus", "revision"}
        assert data["revision"] - before["revision"] == bool(expected)
        assert {name: data[name] for name in data.keys() - moving} == {
            name: value for name, value in (before | expected).items() if name not in moving
        }
        assert client.get(ME, headers=headers).json["data"] == data


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"phone": "12345"}, "phone"),
        ({"phone": "+2341234567890"}, "phone"),
        ({"phone": 8031234567}, "phone"),
        ({"campusId": "north"}, "campusId"),
        ({"campusId": "00000000-0000-4000-8000-000000000000"}, "campusId"),
        ({"avatarUrl": "http://pictures.example/a.png"}, "avatarUrl"),
        ({"avatarUrl": "javascript:alert(1)"}, "avatarUrl"),
        ({"avatarUrl": "https://"}, "avatarUrl"),
        ({"role": "staff"}, "role"),
        ({"accountStatus": "active"}, "accountStatus"),
        ({"email": "a@example.edu"}, "email"),
        ({"email": None}, "email"),
        ({"clear": ["name"]}, "clear[0]"),
        ({"clear": ["phone", "phone"]}, "clear[1]"),
        ({"phone": "08031234567", "clear": ["phone"]}, "clear"),
    ],
)
def test_invalid_account_fields_are_named(
    client: FlaskClient, headers: dict[str, str], body: dict[str, Any], fault: str
) -> None:
    response = client.put(ME, json=body, headers=headers)
    assert response.status_code == 422
    assert faults_of(response) == [fault]


# Addresses


def test_address_is_saved_as_sent(client: FlaskClient, headers: dict[str, str]) -> None:
    sent = {
        "label": "Room",
        "hostel": "Moremi Hall",
        "hall": "Block B",
        "roomNumber": "12",
        "latitude": 6.515,
        "longitude": 3.398,
        "instructions": "Second floor,\nleft.",
        "phone": "+2348031234567",
    }

    data = add_address(client, headers, **sent | {"phone": "08031234567"})

    assert {name: data[name] for name in sent} == sent
    assert data["isDefault"] is True
    assert fetch_addresses(client, headers)["data"] == [data]


def test_only_latest_default_address_is_default(client: FlaskClient, headers: dict[str, str]) -> None:
    first, second = add_address(client, headers), add_address(client, headers)
    assert (first["isDefault"], second["isDefault"]) == (True, False)

    third = add_address(client, headers, isDefault=True)
    assert [row["id"] for row in fetch_addresses(client, headers)["data"]] == [
        third["id"],
        second["id"],
        first["id"],
    ]
    changed = client.put(f"{ADDRESSES}/{first['id']}", json={"isDefault": True}, headers=headers)

    assert changed.json["data"]["isDefault"] is True
    defaults = [row["id"] for row in fetch_addresses(client, headers)["data"] if row["isDefault"]]
    assert defaults == [first["id"]]


def test_addresses_are_paged(
    client: FlaskClient, headers: dict[str, str], bearer: Bearer, market: Market
) -> None:
    made = [add_address(client, headers)["id"] for _ in range(5)]
    expected = [made[0], *reversed(made[1:])]

    first = fetch_addresses(client, headers, limit=2)
    second = fetch_addresses(client, headers, limit=2, cursor=first["meta"]["next_cursor"])
    third = fetch_addresses(client, headers, limit=2, cursor=second["meta"]["next_cursor"])

    seen = [row["id"] for page in (first, second, third) for row in page["data"]]
    assert seen == expected
    assert [page["meta"]["has_more"] for page in (first, second, third)] == [True, True, False]
    foreign = client.get(
        ADDRESSES,
        query_string={"cursor": first["meta"]["next_cursor"]},
        headers=bearer(market.person()),
    )
    assert (foreign.status_code, faults_of(foreign)) == (422, ["cursor"])


def test_address_update_keeps_omitted_fields(client: FlaskClient, headers: dict[str, str]) -> None:
    made = add_address(client, headers, hall="Block B", latitude=6.5, longitude=3.3)

    response = client.put(
        f"{ADDRESSES}/{made['id']}",
        json={"roomNumber": "14", "hall": None, "latitude": None},
        headers=headers,
    )

    assert response.status_code == 200
    assert not AddressView().validate(response.json["data"])
    expected = made | {"roomNumber": "14", "updatedAt": response.json["data"]["updatedAt"]}
    assert response.json["data"] == expected


def test_address_fields_are_emptied_by_name(client: FlaskClient, headers: dict[str, str]) -> None:
    made = add_address(client, headers, hall="Block B", roomNumber="12", latitude=6.5, longitude=3.3)
    path = f"{ADDRESSES}/{made['id']}"

    refused = client.put(path, json={"clear": ["latitude"]}, headers=headers)
    assert (refused.status_code, faults_of(refused)) == (422, ["clear"])
    emptied = ("roomNumber", "latitude", "longitude")
    data = client.put(path, json={"clear": list(emptied)}, headers=headers).json["data"]

    assert data == made | dict.fromkeys(emptied) | {"updatedAt": data["updatedAt"]}


def test_deleted_address_is_gone(client: FlaskClient, headers: dict[str, str]) -> None:
    made = add_address(client, headers)
    path = f"{ADDRESSES}/{made['id']}"

    response = client.delete(path, headers=headers)

    assert response.status_code == 200
    assert response.json["data"] == {"deleted": True, "id": made["id"]}
    assert fetch_addresses(client, headers)["data"] == []
    assert client.delete(path, headers=headers).status_code == 404
    assert client.put(path, json={"hall": "C"}, headers=headers).status_code == 404
    assert add_address(client, headers)["isDefault"] is True


def test_address_of_another_user_is_not_found(
    client: FlaskClient, market: Market, headers: dict[str, str], bearer: Bearer
) -> None:
    made = add_address(client, headers)
    path, other = f"{ADDRESSES}/{made['id']}", bearer(market.person())

    assert client.put(path, json={"hall": "C"}, headers=other).status_code == 404
    assert client.delete(path, headers=other).status_code == 404
    assert fetch_addresses(client, other)["data"] == []
    assert fetch_addresses(client, headers)["data"] == [made]


def test_number_of_addresses_is_limited(client: FlaskClient, headers: dict[str, str]) -> None:
    for _ in range(MAX_ADDRESSES):
        made = add_address(client, headers)

    response = client.post(ADDRESSES, json={"hostel": "One more"}, headers=headers)

    assert (response.status_code, response.json["code"]) == (409, "CONCURRENCY_CONFLICT")
    client.delete(f"{ADDRESSES}/{made['id']}", headers=headers)
    add_address(client, headers)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"hostel": ""}, "hostel"),
        ({"hostel": "x" * 121}, "hostel"),
        ({"latitude": 91, "longitude": 0}, "latitude"),
        ({"latitude": 0, "longitude": -180.5}, "longitude"),
        ({"latitude": "6.5", "longitude": 3.3}, "latitude"),
        ({"latitude": True, "longitude": 3.3}, "latitude"),
        ({"latitude": 6.5}, "longitude"),
        ({"longitude": 6.5}, "latitude"),
        ({"phone": "call me"}, "phone"),
        ({"instructions": "x" * 501}, "instructions"),
        ({"isDefault": "yes"}, "isDefault"),
        ({"userId": "00000000-0000-4000-8000-000000000000"}, "userId"),
    ],
)
def test_invalid_address_fields_are_named(
    client: FlaskClient, headers: dict[str, str], change: dict[str, Any], fault: str
) -> None:
    created = client.post(ADDRESSES, json={"hostel": "Moremi Hall"} | change, headers=headers)
    assert (created.status_code, faults_of(created)) == (422, [fault])
    made = add_address(client, headers)
    changed = client.put(f"{ADDRESSES}/{made['id']}", json=change, headers=headers)
    assert (changed.status_code, faults_of(changed)) == (422, [fault])


def test_address_requires_hostel(client: FlaskClient, headers: dict[str, str]) -> None:
    response = client.post(ADDRESSES, json={}, headers=headers)
    assert (response.status_code, faults_of(response)) == (422, ["hostel"])


def test_latest_address_becomes_default_when_default_is_deleted(
    client: FlaskClient, market: Market, bearer: Bearer
) -> None:
    headers = bearer(market.person())
    first, second, third = (
        client.post("/api/users/me/addresses", json={"hostel": name}, headers=headers).json["data"]["id"]
        for name in ("Moremi", "Jaja", "Mariere")
    )

    assert client.delete(f"/api/users/me/addresses/{first}", headers=headers).status_code == 200

    left = client.get("/api/users/me/addresses", headers=headers).json["data"]
    assert [(row["id"], row["isDefault"]) for row in left] == [(third, True), (second, False)]
