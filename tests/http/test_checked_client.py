"""The checked test client: responses that contradict the route's contract fail the test."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Response
from flask.testing import FlaskClient

from blueprints.http import Context, ContractBlueprint
from blueprints.http.contract import PUBLIC, SharedLimit
from blueprints.http.fields import Schema, StrictInteger, Text
from marketplace.kernel.errors import LimitReachedError, NotFoundError, StaleRevisionError
from marketplace.services import Services
from tests.support.checked_client import checked_app


class Described(Schema):
    """The declared reply of the routes below."""

    title = Text(max_length=20, required=True)
    price_minor = StrictInteger(minimum=0, required=True)


GOOD = {"title": "Lamp", "price_minor": 5}
RENDERED = {"title": "Lamp", "priceMinor": 5}


def view_returning(value: object) -> Callable[[Context], Any]:
    def view(_ctx: Context) -> Any:
        """Return or raise the value."""
        if isinstance(value, Exception):
            raise value
        return value

    return view


def fetch(services: Services, value: object, **terms: Any) -> Any:
    area = ContractBlueprint("described", "/api/described", "Answers")
    area.get("", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, **{"reply": Described} | terms)(
        view_returning(value)
    )
    client: FlaskClient = checked_app(services, [area]).test_client()
    return client.get("/api/described")


def test_response_matching_contract_passes(services: Services) -> None:
    assert fetch(services, GOOD).json["data"] == RENDERED
    assert fetch(services, [GOOD], reply=Described(many=True)).status_code == 200
    assert fetch(services, NotFoundError("There is none."), raises=(NotFoundError,)).status_code == 404


@pytest.mark.parametrize(
    "value",
    [
        GOOD | {"price_minor": "5"},
        GOOD | {"price_minor": 5.0},
        GOOD | {"title": None},
    ],
    ids=repr,
)
def test_response_contradicting_schema_fails(services: Services, value: object) -> None:
    with pytest.raises(AssertionError):
        fetch(services, value)


@pytest.mark.parametrize("value", [{"title": "Lamp"}, [GOOD], None], ids=repr)
def test_reply_without_required_fields_is_internal_error(services: Services, value: object) -> None:
    assert fetch(services, value).status_code == 500


def test_undeclared_fields_are_dropped_from_reply(services: Services) -> None:
    assert fetch(services, GOOD | {"secret": 1}).json["data"] == RENDERED


def test_response_without_envelope_or_reply_schema_fails(services: Services) -> None:
    with pytest.raises(AssertionError):
        fetch(services, Response(b'{"title":"Lamp","priceMinor":5}', content_type="application/json"))
    with pytest.raises(AssertionError):
        fetch(services, GOOD, reply=None)


def test_error_without_problem_details_fails(services: Services) -> None:
    with pytest.raises(AssertionError):
        fetch(services, Response(b"<h1>Gone</h1>", status=404, content_type="text/html"))
    with pytest.raises(AssertionError):
        fetch(services, NotFoundError(retry_after_seconds=5), raises=(NotFoundError,))


def test_undeclared_error_fails(services: Services) -> None:
    assert fetch(services, LimitReachedError(), raises=(LimitReachedError,)).status_code == 409
    with pytest.raises(AssertionError, match="does not declare"):
        fetch(services, LimitReachedError())
    with pytest.raises(AssertionError, match="does not declare"):
        fetch(services, LimitReachedError(), raises=(StaleRevisionError,))
    with pytest.raises(AssertionError, match="does not declare"):
        fetch(services, NotFoundError("There is none."))
