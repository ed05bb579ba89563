"""Authorization: order of checks, account status and role from the database, profiles created on first request."""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import func, select

from blueprints.http import Context
from blueprints.http.contract import (
    AUTHENTICATED,
    AUTHENTICATED_ANY_STATUS,
    PUBLIC,
    STAFF,
    UNCHECKED,
    VENDOR,
    VENDOR_OR_STAFF,
    Access,
    RouteLimit,
    SharedLimit,
    TokenPolicy,
)
from blueprints.http.fields import Schema, StrictInteger
from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.kernel.errors import NotFoundError
from marketplace.platform.models import CampusEmailDomain
from marketplace.services import Services
from tests.support.market import Bearer, Market
from tests.support.probes import (
    assert_problem,
    at_once,
    faults,
    from_address,
    probe_area,
    serve,
    unique_address,
)

area = probe_area()
FINANCE = Access(
    "Admin", TokenPolicy.REQUIRED, roles=frozenset({"staff"}), permissions=("canManageFinances",)
)
FINANCE_AAL2 = Access(
    "Admin (AAL2)",
    TokenPolicy.REQUIRED,
    roles=frozenset({"staff"}),
    permissions=("canManageFinances",),
    aal2=True,
)
ACCESSES = {
    "authenticated": AUTHENTICATED,
    "own-account": AUTHENTICATED_ANY_STATUS,
    "vendor": VENDOR,
    "vendor-or-staff": VENDOR_OR_STAFF,
    "staff": STAFF,
    "finance": FINANCE,
    "finance-aal2": FINANCE_AAL2,
    "public": PUBLIC,
    "unchecked": UNCHECKED,
}


class Amount(Schema):
    """A body with a single field."""

    amount = StrictInteger(minimum=1, required=True)


def _declare(name: str, access: Access) -> None:
    def view(ctx: Context) -> dict[str, Any]:
        return {"user": ctx.caller and ctx.caller.id}

    view.__name__ = name.replace("-", "_")
    area.get(f"/{name}", auth=access, limit=SharedLimit.CALLER_TIER)(view)


for _name, _access in ACCESSES.items():
    _declare(_name, _access)


@area.post(
    "/guarded", auth=FINANCE_AAL2, limit=RouteLimit("1/59minute", scope=f"guarded-{uuid4()}"), body=Amount
)
def guarded(_ctx: Context, body: dict[str, Any]) -> None:
    raise NotFoundError(f"Nothing of {body['amount']}.")


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area)


def status_of(probe: FlaskClient, name: str, headers: dict[str, str]) -> int:
    return probe.get(f"/api/probe/{name}", headers=headers).status_code


def test_each_access_admits_only_named_roles(probe: FlaskClient, market: Market, bearer: Bearer) -> None:
    buyer = bearer(market.person())
    vendor = bearer(market.person(role="vendor"))
    support = bearer(market.staff("support"))
    finance = bearer(market.staff("finance"))
    admin = bearer(market.staff("admin"), aal="aal2")
    expected = {
        "authenticated": (200, 200, 200, 200, 200),
        "own-account": (200, 200, 200, 200, 200),
        "vendor": (403, 200, 403, 403, 403),
        "vendor-or-staff": (403, 200, 200, 200, 200),
        "staff": (403, 403, 200, 200, 200),
        "finance": (403, 403, 403, 200, 200),
        "finance-aal2": (403, 403, 403, 403, 200),
        "public": (200, 200, 200, 200, 200),
        "unchecked": (200, 200, 200, 200, 200),
    }
    people = (buyer, vendor, support, finance, admin)
    assert {
        name: tuple(status_of(probe, name, headers) for headers in people) for name in ACCESSES
    } == expected
    without_token = {name: status_of(probe, name, {}) for name in ACCESSES}
    assert without_token == {name: 200 if name in ("public", "unchecked") else 401 for name in ACCESSES}


@pytest.mark.parametrize("account_state", ["restricted", "suspended"])
def test_barred_account_reaches_only_routes_open_to_any_status(
    probe: FlaskClient, market: Market, bearer: Bearer, account_state: str
) -> None:
    barred = bearer(market.person(account_status=account_state))
    body = assert_problem(probe.get("/api/probe/authenticated", headers=barred), 403, "AUTH_FORBIDDEN")
    assert account_state in body["detail"]
    assert status_of(probe, "own-account", barred) == 200
    officer = bearer(
        market.person(role="staff", staff_role="admin", account_status=account_state), aal="aal2"
    )
    assert status_of(probe, "finance-aal2", officer) == 403


def test_account_status_and_role_are_read_from_database_on_each_request(
    probe: FlaskClient, market: Market, bearer: Bearer
) -> None:
    user_id = market.staff("finance")
    headers = bearer(user_id, role="admin", permissions=["canManageFinances"], accountStatus="active")
    assert status_of(probe, "finance", headers) == 200
    market.change(Profile, user_id, staff_role="support")
    assert status_of(probe, "finance", headers) == 403
    market.change(Profile, user_id, role="buyer", staff_role=None)
    assert status_of(probe, "staff", headers) == 403
    market.change(Profile, user_id, account_status="suspended")
    assert status_of(probe, "authenticated", headers) == 403


def test_missing_permission_is_reported_before_missing_second_factor(
    probe: FlaskClient, market: Market, bearer: Bearer
) -> None:
    finance = market.staff("finance")
    path = "/api/probe/finance-aal2"
    body = assert_problem(probe.get(path, headers=bearer(finance)), 403, "AUTH_AAL2_REQUIRED")
    assert body["title"] == "Two-Factor Required"
    assert status_of(probe, "finance-aal2", bearer(finance, aal="aal2")) == 200
    support = bearer(market.staff("support"), aal="aal1")
    assert_problem(probe.get(path, headers=support), 403, "AUTH_FORBIDDEN")


def test_request_checks_run_in_fixed_order(services: Services, market: Market, bearer: Bearer) -> None:
    """Each request also fails all later checks, so the reported error shows the order."""
    probe = serve(services, area, rate_limit_scale=1)
    barred = market.person(role="staff", staff_role="support", account_status="suspended")

    def send(headers: dict[str, str], **body: Any) -> Any:
        given = body or {"data": b"{", "content_type": "application/json"}
        address = from_address(unique_address())
        return probe.post("/api/probe/guarded", headers=headers, **given, **address)

    assert_problem(send({"Authorization": "Bearer x"}), 401, "AUTH_UNAUTHORIZED")
    assert "suspended" in assert_problem(send(bearer(barred)), 403, "AUTH_FORBIDDEN")["detail"]
    support = send(bearer(market.staff("support")))
    assert "canManageFinances" in assert_problem(support, 403, "AUTH_FORBIDDEN")["detail"]
    assert_problem(send(bearer(market.staff("finance"))), 403, "AUTH_AAL2_REQUIRED")

    def finance() -> dict[str, str]:
        return bearer(market.staff("finance"), aal="aal2")

    same = finance()
    assert send(same).status_code == 400
    assert_problem(send(same), 429, "RATE_LIMIT_EXCEEDED")
    assert send(finance()).status_code == 400
    assert faults(send(finance(), json={"amount": 0})) == ["amount"]
    assert_problem(send(finance(), json={"amount": 1}), 404, "RESOURCE_NOT_FOUND")


def count_profiles(database: Database, user_id: UUID) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).where(Profile.id == user_id)) or 0


@pytest.fixture
def campus_of(market: Market, database: Database) -> Callable[[str], UUID]:
    def make(domain: str) -> UUID:
        with database.transaction() as session:
            session.add(CampusEmailDomain(domain=domain, campus_id=market.campus_id))
        return market.campus_id

    return make


def test_first_request_creates_buyer_profile_with_campus_of_email_domain(
    probe: FlaskClient, market: Market, bearer: Bearer, campus_of: Callable[[str], UUID]
) -> None:
    domain = f"{uuid4().hex}.example.edu"
    campus_id = campus_of(domain)
    for email in (f"amara@{domain}", f"Amara@{domain.upper()}", f'"a@b"@{domain}'):
        user_id = uuid4()
        claims = {"email": email, "name": "Amara", "role": "staff", "staff_role": "admin"}
        assert status_of(probe, "authenticated", bearer(user_id, **claims)) == 200
        row = market.row(Profile, user_id)
        assert (row.email, row.name, row.role, row.staff_role) == (email, "Amara", "buyer", None)
        assert (row.campus_id, row.account_status) == (campus_id, "active")


@pytest.mark.parametrize("email", [None, "amara", "amara@", "@", "amara@nowhere.example"])
def test_first_request_creates_profile_without_campus_for_unrecognized_email(
    probe: FlaskClient, market: Market, bearer: Bearer, email: str | None
) -> None:
    user_id = uuid4()
    assert status_of(probe, "authenticated", bearer(user_id, **({"email": email} if email else {}))) == 200
    row = market.row(Profile, user_id)
    assert (row.email, row.campus_id) == (email, None)


def test_concurrent_first_requests_create_single_profile(
    probe: FlaskClient, database: Database, bearer: Bearer
) -> None:
    user_id = uuid4()
    headers = bearer(user_id, email="amara@example.edu")
    ask = [
        partial(probe.application.test_client().get, "/api/probe/authenticated", headers=headers)
        for _ in range(20)
    ]
    answers = at_once(ask)
    assert [answer.status_code for answer in answers] == [200] * 20
    assert count_profiles(database, user_id) == 1


def test_refused_token_creates_no_profile(probe: FlaskClient, database: Database, bearer: Bearer) -> None:
    user_id = uuid4()
    assert status_of(probe, "authenticated", bearer(user_id, exp=1)) == 401
    assert status_of(probe, "unchecked", bearer(user_id)) == 200
    assert count_profiles(database, user_id) == 0
