"""Date ranges of listings and statements: accepted bounds and named faults."""

import pytest

from tests.support.probes import assert_problem, faults
from tests.support.shop_client import ShopClient

LISTINGS = (
    "/api/payouts",
    "/api/payouts/batches",
    "/api/wallet/cash-outs",
    "/api/transactions",
    "/api/orders/admin",
)
STATEMENT = "/api/payouts/statement"
ENDS = ("from", "to")


def headers_for(shop_client: ShopClient, path: str) -> dict[str, str]:
    """Return the headers of a caller with access to the path."""
    staff_role = {"/api/payouts/batches": "finance", "/api/orders/admin": "orders"}.get(path)
    return shop_client.officer(staff_role) if staff_role else shop_client.vendor


@pytest.mark.parametrize("path", [*LISTINGS, STATEMENT])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "1999-12-31T23:59:59.999999Z"])
def test_date_before_year_2000_is_refused(shop_client: ShopClient, path: str, end: str, moment: str) -> None:
    assert list(faults(shop_client.get(path, headers_for(shop_client, path), **{end: moment}))) == [end]


@pytest.mark.parametrize("path", LISTINGS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("moment", ["2000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_listing_accepts_any_date_from_year_2000(
    shop_client: ShopClient, path: str, end: str, moment: str
) -> None:
    assert shop_client.get(path, headers_for(shop_client, path), **{end: moment}).status_code == 200


@pytest.mark.parametrize("path", [*LISTINGS, STATEMENT])
@pytest.mark.parametrize("end", ["2026-11-01T00:00:00Z", "2026-10-31T23:59:59Z"])
def test_range_that_does_not_end_after_start_is_refused(shop_client: ShopClient, path: str, end: str) -> None:
    period = {"from": "2026-11-01T00:00:00Z", "to": end}
    refused = shop_client.get(path, headers_for(shop_client, path), **period)
    [fault] = assert_problem(refused, 422, "VALIDATION_FAILED")["invalid_params"]
    assert fault == {"name": "from", "reason": "Must be before `to`."}


@pytest.mark.parametrize("moment", ["2000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_statement_accepts_any_end_date_from_year_2000(shop_client: ShopClient, moment: str) -> None:
    assert shop_client.get(STATEMENT, shop_client.vendor, to=moment).status_code == 200


@pytest.mark.parametrize("moment", ["2000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_statement_longer_than_a_year_is_refused(shop_client: ShopClient, moment: str) -> None:
    assert list(faults(shop_client.get(STATEMENT, shop_client.vendor, **{"from": moment}))) == ["from"]
