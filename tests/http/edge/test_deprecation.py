"""Deprecated routes: headers, the notice of six months, and the count of clients."""

from datetime import date

import pytest
from flask.testing import FlaskClient
from marshmallow import fields

from blueprints.areas import contracts
from blueprints.http import PUBLIC, Context, ContractBlueprint, SharedLimit
from blueprints.http.application import build_app
from blueprints.http.deprecation import MINIMUM_NOTICE, Deprecation
from blueprints.http.field_docs import doc
from blueprints.http.fields import Schema
from marketplace.kernel.signals import DEPRECATED_CALL, RECORDER
from marketplace.services import Services

END = Deprecation(since=date(2026, 12, 1), sunset=date(2027, 7, 1), guide="/docs/moved")


class OldReply(Schema):
    """The reply of a deprecated route."""

    word = fields.String(required=True, metadata=doc("A word.", "old"))


@pytest.fixture(scope="module")
def client(services: Services) -> FlaskClient:
    area = ContractBlueprint("old", "/api/old", "Deprecated routes")

    @area.get("", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, reply=OldReply, deprecation=END)
    def get_old_word(_ctx: Context) -> dict[str, str]:
        """Get a word."""
        return {"word": "old"}

    return build_app(services, [area]).test_client()


def test_headers_announce_the_end(client: FlaskClient) -> None:
    answer = client.get("/api/old")
    assert answer.json["data"] == {"word": "old"}
    assert answer.headers["Deprecation"] == "@1796083200"
    assert answer.headers["Sunset"] == "Thu, 01 Jul 2027 00:00:00 GMT"
    assert answer.headers["Link"] == '</docs/moved>; rel="sunset"'


@pytest.mark.parametrize(
    ("agent", "client_name"),
    [
        ("okhttp/4.9.3 (Android)", "okhttp/4.9.3"),
        ("MarketApp", "MarketApp"),
        ("", "unknown"),
        ("(+2348031234567)", "unknown"),
    ],
)
def test_calls_are_counted_by_client(client: FlaskClient, agent: str, client_name: str) -> None:
    RECORDER.take()
    client.get("/api/old", headers={"User-Agent": agent})
    client.get("/api/old", headers={"User-Agent": agent})
    counted = {key.label: number for key, number in RECORDER.take().items() if key.signal == DEPRECATED_CALL}
    assert counted == {f"GET /api/old {client_name}": 2}


def test_document_marks_the_route(client: FlaskClient) -> None:
    operation = client.get("/openapi.json").json["paths"]["/api/old"]["get"]
    assert (operation["deprecated"], operation["x-sunset"]) == (True, "2027-07-01")


def test_notice_of_less_than_six_months_is_refused() -> None:
    with pytest.raises(ValueError, match="less than six months"):
        Deprecation(since=date(2026, 12, 1), sunset=date(2027, 5, 31), guide="/docs/moved")


def test_deprecated_routes_have_a_notice_of_six_months() -> None:
    announced = [contract.deprecation for contract in contracts() if contract.deprecation]
    assert all(end.sunset - end.since >= MINIMUM_NOTICE for end in announced)
