"""The client that checks all answers: it notices an answer that is not as its route describes it."""

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
    """What the routes below say that they answer."""

    title = Text(max_length=20, required=True)
    price_minor = StrictInteger(minimum=0, required=True)


GOOD = {"title": "Lamp", "price_minor": 5}
RENDERED = {"title": "Lamp", "priceMinor": 5}


def answering(value: object) -> Callable[[Context], Any]:
    def view(_ctx: Context) -> Any:
        """Answer."""
        if isinstance(value, Exception):
            raise value
        return value

    return view


def asked(services: Services, value: object, **terms: Any) -> Any:
    area = ContractBlueprint("described", "/api/described", "Answers")
    area.get("", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, **{"reply": Described} | terms)(answering(value))
    client: FlaskClient = checked_app(services, [area]).test_client()
    return client.get("/api/described")


def test_an_answer_as_described_passes(services: Services) -> None:
    assert asked(services, GOOD).json["data"] == RENDERED
    assert asked(services, [GOOD], reply=Described(many=True)).status_code == 200
    assert asked(services, NotFoundError("There is none.")).status_code == 404


@pytest.mark.parametrize(
    "value",
    [
        GOOD | {"price_minor": "5"},
        GOOD | {"price_minor": 5.0},
        GOOD | {"title": None},
    ],
    ids=repr,
)
def test_an_answer_that_is_not_as_described_is_noticed(services: Services, value: object) -> None:
    with pytest.raises(AssertionError):
        asked(services, value)


@pytest.mark.parametrize("value", [{"title": "Lamp"}, [GOOD], None], ids=repr)
def test_reply_that_lacks_fields_of_its_schema_is_an_internal_error(
    services: Services, value: object
) -> None:
    assert asked(services, value).status_code == 500


def test_fields_that_the_schema_lacks_are_not_answered(services: Services) -> None:
    assert asked(services, GOOD | {"secret": 1}).json["data"] == RENDERED


def test_an_answer_without_the_envelope_or_description_is_noticed(services: Services) -> None:
    with pytest.raises(AssertionError):
        asked(services, Response(b'{"title":"Lamp","priceMinor":5}', content_type="application/json"))
    with pytest.raises(AssertionError):
        asked(services, GOOD, reply=None)


def test_an_error_that_is_no_problem_details_is_noticed(services: Services) -> None:
    with pytest.raises(AssertionError):
        asked(services, Response(b"<h1>Gone</h1>", status=404, content_type="text/html"))
    with pytest.raises(AssertionError):
        asked(services, NotFoundError(retry_after_seconds=5))


def test_an_undeclared_reason_is_noticed(services: Services) -> None:
    assert asked(services, LimitReachedError(), raises=(LimitReachedError,)).status_code == 409
    with pytest.raises(AssertionError, match="does not declare"):
        asked(services, LimitReachedError())
    with pytest.raises(AssertionError, match="does not declare"):
        asked(services, LimitReachedError(), raises=(StaleRevisionError,))
