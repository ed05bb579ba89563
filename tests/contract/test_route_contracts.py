"""Route contracts compared with the rows of the specification."""

import inspect
import re
from collections import defaultdict

import pytest
from flask import Flask
from limits import parse

from blueprints.areas import contracts
from blueprints.http import ContractBlueprint
from blueprints.http.contract import Access, Contract, ProcessGroup, RouteLimit, SharedLimit
from marketplace.infra.waits.limits import LONG_WAIT_SECONDS
from tests.contract.specification import ROWS, Row, RowAccess, summary

TIERS = {
    SharedLimit.CALLER_TIER: "global",
    SharedLimit.MERCHANT_TIER: "vendor",
    SharedLimit.UNLIMITED: "unlimited",
}
# Routes of the HTTP edge without row and contract: documents and pages. Only the pages of errors are limited.
WITHOUT_CONTRACT = {
    "/openapi.json",
    "/",
    "/docs",
    "/docs/assets/<path:name>",
    "/errors",
    "/status",
    "/errors/<slug>",
    "/static/<path:filename>",
}


def pattern(path: str) -> str:
    """Return a path without names and types of parameters."""
    return re.sub(r"<[^<>]+>|:\w+", ":", path)


def key_of(one: Row | Contract) -> tuple[str, str]:
    return one.method, pattern(one.path)


def row_access_of(access: Access) -> RowAccess:
    """Convert a contract's access to a row's access. Permissions imply the staff role."""
    roles = access.roles or frozenset()
    return RowAccess(
        token=access.token.value,
        roles=frozenset({"staff"}) if access.permissions else roles,
        permissions=access.permissions,
        aal2=access.aal2,
        restricted=access.open_to_restricted,
    )


CONTRACTS = {key_of(contract): contract for contract in contracts()}
BUILT = [row for row in ROWS if row.built]
built_rows = pytest.mark.parametrize("row", BUILT, ids=[f"{row.method} {row.path}" for row in BUILT])


def test_rows_and_contracts_are_unique() -> None:
    assert len({key_of(row) for row in ROWS}) == len(ROWS)
    assert len(CONTRACTS) == len(contracts())


def test_every_contract_has_a_row_marked_as_built() -> None:
    assert CONTRACTS.keys() - {key_of(row) for row in BUILT} == set()


@built_rows
def test_built_row_matches_the_contract(row: Row) -> None:
    contract = CONTRACTS[key_of(row)]

    assert row_access_of(contract.access) == row.access
    assert contract.cache_seconds == row.cache
    assert contract.idempotency.value == row.idempotency
    assert (contract.group is ProcessGroup.WAITING) == row.waits
    if isinstance(contract.limit, RouteLimit):
        assert parse(contract.limit.quota) == parse(row.limit)
    else:
        assert TIERS[contract.limit] == row.limit


def test_routes_share_rate_limits_exactly_as_specified() -> None:
    scopes = defaultdict(set)
    for row in BUILT:
        limit = CONTRACTS[key_of(row)].limit
        if isinstance(limit, RouteLimit):
            scopes[limit.scope].add(row.shares or key_of(row))
    of_shares = [shares for names in scopes.values() for shares in names]
    assert all(len(names) == 1 for names in scopes.values()), scopes
    assert len(of_shares) == len(set(of_shares)), scopes


def test_rows_that_share_a_limit_have_the_same_limit() -> None:
    limits = defaultdict(set)
    for row in ROWS:
        if row.shares:
            limits[row.shares].add(row.limit)
    assert limits
    assert all(len(found) == 1 for found in limits.values())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_specification_row_is_consistent(row: Row) -> None:
    """No row may request a combination that the service cannot provide."""
    assert row.limit in TIERS.values() or parse(row.limit).amount > 0
    assert not row.cache or (row.method == "GET" and row.access.token != "required")
    assert row.idempotency == "not read" or (row.method == "POST" and row.access.token == "required")
    assert not (row.access.aal2 or row.access.permissions) or "staff" in row.access.roles
    assert row.access.token == "required" or not (row.access.roles or row.access.restricted)


def test_every_route_has_a_contract_or_is_a_listed_exception(app: Flask) -> None:
    served = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    declared = {(contract.method, contract.path) for contract in contracts()}
    assert declared <= served
    assert {path for _method, path in served - declared} == WITHOUT_CONTRACT
    assert {method for method, path in served - declared} == {"GET"}


def test_contract_without_access_or_limit_is_refused() -> None:
    parameters = inspect.signature(ContractBlueprint.route_under_contract).parameters
    for name in ("auth", "limit"):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default is inspect.Parameter.empty

    with pytest.raises(TypeError, match="limit"):
        ContractBlueprint("undecided", "/undecided", "").get("", auth=contracts()[0].access)


def test_summary_counts_built_and_missing_rows() -> None:
    to_come = len(ROWS) - len(CONTRACTS)
    assert summary() == f"specification: {len(CONTRACTS)} of {len(ROWS)} rows built, {to_come} to come"


def test_waits_for_the_database_are_declared_where_they_differ() -> None:
    """A webhook is refused soon, because the provider redelivers. Exports and staff may wait as long as the server."""
    declared = defaultdict(set)
    for (method, path), contract in CONTRACTS.items():
        declared[contract.declared_wait_seconds].add(f"{method} {path}")

    assert declared[0.4] == {
        "POST /api/payments/webhook",
        "POST /api/whatsapp/webhook",
        "POST /functions/v1/:-webhook",
    }
    for long in ("GET /api/orders/admin", "GET /api/transactions", "GET /api/payouts/statement"):
        assert long in declared[LONG_WAIT_SECONDS]
    for short in ("GET /api/orders", "POST /api/orders", "GET /api/products/search"):
        assert short in declared[None]
    assert declared.keys() == {None, 0.4, LONG_WAIT_SECONDS}
