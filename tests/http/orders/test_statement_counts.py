"""The number of database statements in each step of a purchase."""

from werkzeug.test import TestResponse

from tests.support.purchases import pin_of
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient, new_key


def test_steps_of_a_purchase_send_few_statements(shop_client: ShopClient) -> None:
    database = shop_client.client.application.extensions["marketplace"].database
    counts: dict[str, int] = {}

    def send(step: str, path: str, headers: dict[str, str], body: object = None) -> TestResponse:
        with counted_statements(database) as statements:
            answer = shop_client.post(path, headers, body, key=new_key() if step == "initialize" else None)
        assert answer.status_code == 200, answer.json
        counts[step] = len(statements)
        return answer

    # The first release opens the vendor's account.
    first = shop_client.shipped()
    send("release", f"/api/orders/{first}/verify-code", shop_client.vendor, {"pin": pin_of(first)})
    unpaid, paid = shop_client.unpaid(), shop_client.paid()
    send("initialize", "/api/payments/initialize", shop_client.buyer, {"orderId": str(unpaid)})
    path = f"/api/orders/{paid}"
    send("accept", f"{path}/accept", shop_client.vendor)
    send("ship", f"{path}/status", shop_client.vendor, {"status": "shipped"})
    send("release", f"{path}/verify-code", shop_client.vendor, {"pin": pin_of(paid)})

    assert counts == {
        # The caller, the key, the locked checkout, live payments and a new one; then orders, page and key.
        "initialize": 8,
        # The caller, the locked order, the transition and the view.
        "accept": 4,
        "ship": 4,
        # The ledger's transaction in addition.
        "release": 5,
    }
