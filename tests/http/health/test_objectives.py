"""Service objectives for staff."""

from flask.testing import FlaskClient

from marketplace.health.objectives import OBJECTIVES
from marketplace.infra.db import Database
from tests.support.market import Bearer
from tests.support.probes import assert_problem
from tests.support.purchases import make_person


def test_staff_read_all_objectives(client: FlaskClient, database: Database, bearer: Bearer) -> None:
    officer = database.in_transaction(make_person, role="staff", staff_role="support")
    answer = client.get("/api/admin/slo", headers=bearer(officer.id))
    assert answer.status_code == 200, answer.json
    assert [row["name"] for row in answer.json["data"]] == list(OBJECTIVES)
    assert answer.json["data"][0]["burnRates"].keys() == {
        "fiveMinutes",
        "halfHour",
        "hour",
        "sixHours",
        "threeDays",
    }


def test_objectives_require_staff(client: FlaskClient, database: Database, bearer: Bearer) -> None:
    buyer = database.in_transaction(make_person)
    assert_problem(client.get("/api/admin/slo", headers=bearer(buyer.id)), 403, "AUTH_FORBIDDEN")
    assert_problem(client.get("/api/admin/slo"), 401, "AUTH_UNAUTHORIZED")
