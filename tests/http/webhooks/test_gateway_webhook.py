"""The gateway's webhook over HTTP: signed events are stored and acknowledged, all others are refused."""

import gzip
import hashlib
import hmac
import json
import random
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from blueprints.areas import AREAS
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.kernel.signals import COUNT, RECORDER, Key
from marketplace.services import Services
from marketplace.webhooks import inbox
from tests.support.checked_client import checked_app
from tests.support.gateway import GATEWAY_KEY, charge_data, event_of, sign
from tests.support.probes import assert_problem, changed
from tests.support.purchases import NOW, status_of
from tests.support.shop_client import ShopClient, new_key

WEBHOOK = "/api/payments/webhook"
FUNCTION = "/functions/v1/gateway-webhook"
HEADER = "x-gateway-signature"
GATEWAY_NETWORKS = ("203.0.113.0/24", "198.51.100.7/32", "2001:db8::/32")


def deliver(
    client: FlaskClient, body: bytes, signature: str | None, *, path: str = WEBHOOK, **headers: str
) -> TestResponse:
    signed = {} if signature is None else {HEADER: signature}
    return client.post(path, data=body, headers={**signed, **headers})


def count_stored(database: Database, body: bytes) -> int:
    with database.reading() as session:
        rows = session.connection().exec_driver_sql(
            "SELECT count(*) FROM webhook_inbox WHERE body = %(body)s", {"body": body}
        )
        return int(rows.scalar_one())


def some_event() -> bytes:
    return event_of(charge_data(f"checkout-{uuid4().hex}", 100))


@pytest.fixture
def client(shop_client: ShopClient) -> FlaskClient:
    return shop_client.client


def test_payment_event_marks_order_paid(shop_client: ShopClient, database: Database) -> None:
    order_id = shop_client.unpaid()
    intent = shop_client.post(
        "/api/payments/intent", shop_client.buyer, {"orderId": str(order_id)}, key=new_key()
    ).json["data"]
    body = event_of(charge_data(intent["reference"], intent["amountMinor"]))

    answer = deliver(shop_client.client, body, sign(body))

    assert (answer.status_code, answer.data) == (200, b'{"received":true}')
    with database.reading() as session:
        assert status_of(session, order_id) == "pending_payment"
        [inbox_id] = [
            row.id
            for row in session.connection().exec_driver_sql(
                "SELECT id FROM webhook_inbox WHERE body = %(body)s", {"body": body}
            )
        ]
    inbox.process_event(database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=random.random)
    assert (
        shop_client.get(f"/api/orders/{order_id}", shop_client.buyer).json["data"]["status"] == "paid_escrow"
    )


@pytest.mark.parametrize("body", [some_event(), b"not JSON", b"\x00\xff", json.dumps([1]).encode()])
def test_signed_body_is_stored_unchanged(client: FlaskClient, database: Database, body: bytes) -> None:
    """The worker classifies the event later, so the sender need not resend."""
    before = count_stored(database, body)

    answer = deliver(client, body, sign(body), **{"Content-Type": "text/plain"})

    assert (answer.status_code, answer.data) == (200, b'{"received":true}')
    assert count_stored(database, body) == before + 1


@pytest.mark.parametrize("path", [WEBHOOK, FUNCTION])
@pytest.mark.parametrize("query", ["x=1", "event=1&event=2", "%ff", "data"])
def test_query_string_is_ignored(client: FlaskClient, database: Database, path: str, query: str) -> None:
    body = some_event()

    assert deliver(client, body, sign(body), path=f"{path}?{query}").status_code == 200

    assert count_stored(database, body) == 1


def test_function_path_serves_same_webhook(client: FlaskClient, database: Database) -> None:
    body = some_event()

    answer = deliver(client, body, sign(body), path=FUNCTION)

    assert (answer.status_code, answer.data) == (200, b'{"received":true}')
    assert count_stored(database, body) == 1
    assert_problem(deliver(client, body, sign(body).upper(), path=FUNCTION), 401, "AUTH_UNAUTHORIZED")
    assert_problem(deliver(client, b"", None, path=FUNCTION), 401, "AUTH_UNAUTHORIZED")
    large = b"x" * (1024 * 1024 + 1)
    assert_problem(deliver(client, large, sign(large), path=FUNCTION), 413, "PAYLOAD_TOO_LARGE")
    assert_problem(client.get(FUNCTION), 405, "METHOD_NOT_ALLOWED")
    assert count_stored(database, body) == 1


def test_function_path_uses_configured_gateway_name(paying_services: Services) -> None:
    client = checked_app(changed(paying_services, gateway_name="paymint"), AREAS).test_client()
    body = some_event()
    signed = {"x-paymint-signature": sign(body), HEADER: sign(body)}

    assert_problem(client.post(FUNCTION, data=body, headers=signed), 404, "RESOURCE_NOT_FOUND")
    named = "/functions/v1/paymint-webhook"
    assert client.post(named, data=body, headers=signed).status_code == 200


BODY = some_event()
SIGNATURE = sign(BODY)


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        SIGNATURE[:-1],
        SIGNATURE + "0",
        SIGNATURE.upper(),
        "g" * 128,
        "é" * 128,
        sign(BODY + b" "),
        sign(BODY, "sk_test_another"),
        hmac.digest(GATEWAY_KEY.encode(), BODY, hashlib.sha256).hex() * 2,
        f"sha512={SIGNATURE}",
        f"{SIGNATURE}, {SIGNATURE}",
    ],
    ids=[
        "missing",
        "empty",
        "short",
        "long",
        "upper case",
        "not hex",
        "not ASCII",
        "signature of another body",
        "signature with another secret",
        "signature with another hash",
        "prefixed",
        "repeated",
    ],
)
def test_invalid_signature_is_refused(client: FlaskClient, database: Database, signature: str | None) -> None:
    problem = assert_problem(deliver(client, BODY, signature), 401, "AUTH_UNAUTHORIZED")

    assert SIGNATURE not in json.dumps(problem)
    assert count_stored(database, BODY) == 0


def test_altered_body_is_refused(client: FlaskClient, database: Database) -> None:
    body = BODY.replace(b'"amount": 100', b'"amount": 101')
    assert body != BODY

    assert_problem(deliver(client, body, SIGNATURE), 401, "AUTH_UNAUTHORIZED")
    assert count_stored(database, body) == 0


def test_signature_in_other_header_is_refused(client: FlaskClient) -> None:
    assert_problem(
        client.post(WEBHOOK, data=BODY, headers={"x-paystack-signature": SIGNATURE}), 401, "AUTH_UNAUTHORIZED"
    )


def test_signature_header_uses_configured_gateway_name(paying_services: Services) -> None:
    client = checked_app(changed(paying_services, gateway_name="paymint"), AREAS).test_client()
    body = some_event()

    assert_problem(deliver(client, body, sign(body)), 401, "AUTH_UNAUTHORIZED")
    assert client.post(WEBHOOK, data=body, headers={"x-paymint-signature": sign(body)}).status_code == 200


@pytest.mark.parametrize("signature", [None, SIGNATURE, sign(BODY, "")])
def test_missing_secret_key_refuses_all_deliveries(
    paying_services: Services, database: Database, signature: str | None
) -> None:
    client = checked_app(changed(paying_services, gateway_secret_key=""), AREAS).test_client()

    assert_problem(deliver(client, BODY, signature), 500, "INTERNAL_ERROR")
    assert count_stored(database, BODY) == 0


def test_body_larger_than_size_limit_is_refused(client: FlaskClient, database: Database) -> None:
    fits, too_large = b"x" * (1024 * 1024), b"x" * (1024 * 1024 + 1)

    assert deliver(client, fits, sign(fits)).status_code == 200
    assert_problem(deliver(client, too_large, sign(too_large)), 413, "PAYLOAD_TOO_LARGE")
    assert count_stored(database, too_large) == 0


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_methods_other_than_post_are_refused(client: FlaskClient, method: str) -> None:
    assert_problem(client.open(WEBHOOK, method=method), 405, "METHOD_NOT_ALLOWED")


def test_deliveries_are_not_rate_limited(paying_services: Services) -> None:
    client = checked_app(changed(paying_services, rate_limit_scale=1), AREAS).test_client()
    body = some_event()

    answers: list[Any] = [deliver(client, body, sign(body)) for _ in range(70)]

    assert {answer.status_code for answer in answers} == {200}


def test_bearer_token_is_ignored(shop_client: ShopClient) -> None:
    body = some_event()

    assert deliver(shop_client.client, body, sign(body), Authorization="Bearer nonsense").status_code == 200
    assert_problem(
        deliver(shop_client.client, body, None, **shop_client.officer("finance")), 401, "AUTH_UNAUTHORIZED"
    )


@pytest.mark.parametrize("path", [WEBHOOK, FUNCTION])
@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip", "GZIP", "unheard-of"])
def test_compressed_body_is_refused(
    client: FlaskClient, database: Database, path: str, encoding: str
) -> None:
    """The gateway does not document whether a signature covers the compressed or the unpacked body."""
    body = gzip.compress(some_event())

    answer = deliver(client, body, sign(body), path=path, **{"Content-Encoding": encoding})

    assert "compressed" in assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")["detail"]
    assert count_stored(database, body) == 0


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_body_with_identity_encoding_is_accepted(client: FlaskClient, encoding: str) -> None:
    body = some_event()

    assert deliver(client, body, sign(body), **{"Content-Encoding": encoding}).status_code == 200


@pytest.fixture(scope="module")
def apps_behind_proxies(paying_services: Services) -> list[Flask]:
    """Applications with an allowlist of gateway networks, behind 0, 1 and 2 proxies."""
    return [
        checked_app(
            changed(paying_services, gateway_webhook_addresses=GATEWAY_NETWORKS, trusted_proxy_hops=hops),
            AREAS,
        )
        for hops in range(3)
    ]


class TestNetworksOfTheGateway:
    """Deliveries from outside GATEWAY_WEBHOOK_ADDRESSES are refused, even with a valid signature."""

    @pytest.mark.parametrize("path", [WEBHOOK, FUNCTION])
    @pytest.mark.parametrize(
        ("address", "taken"),
        [
            ("203.0.113.7", True),
            ("::ffff:203.0.113.7", True),
            ("198.51.100.7", True),
            ("2001:db8:5::1", True),
            ("198.51.100.8", False),
            ("203.0.114.1", False),
            ("2001:db9::1", False),
            ("", False),
        ],
    )
    def test_without_proxy_connecting_address_must_be_allowed(
        self, apps_behind_proxies: list[Flask], database: Database, path: str, address: str, taken: bool
    ) -> None:
        client = apps_behind_proxies[0].test_client()
        body = some_event()

        # Without proxies the forwarded address is forged and must be ignored.
        answer = client.post(
            path,
            data=body,
            headers={HEADER: sign(body), "X-Forwarded-For": "203.0.113.7"},
            environ_base={"REMOTE_ADDR": address},
        )

        self.assert_taken(answer, taken)
        assert count_stored(database, body) == int(taken)

    @pytest.mark.parametrize(
        ("hops", "chain", "taken"),
        [
            (1, "203.0.113.7", True),
            (1, "192.0.2.1, 203.0.113.7", True),
            (1, "203.0.113.7, 192.0.2.1", False),
            (1, "203.0.113.7:4711", False),
            (1, "nonsense", False),
            (1, None, False),
            (2, "203.0.113.7, 192.0.2.1", True),
            (2, "203.0.113.7, 192.0.2.9, 192.0.2.1", False),
        ],
    )
    def test_behind_proxies_address_added_by_trusted_proxy_must_be_allowed(
        self, apps_behind_proxies: list[Flask], hops: int, chain: str | None, taken: bool
    ) -> None:
        client = apps_behind_proxies[hops].test_client()
        body = some_event()
        headers = {HEADER: sign(body)} | ({"X-Forwarded-For": chain} if chain else {})

        answer = client.post(WEBHOOK, data=body, headers=headers, environ_base={"REMOTE_ADDR": "192.0.2.1"})

        self.assert_taken(answer, taken)

    def test_foreign_address_is_reported_before_wrong_signature(
        self, apps_behind_proxies: list[Flask]
    ) -> None:
        client = apps_behind_proxies[0].test_client()

        answer = client.post(WEBHOOK, data=b"{}", environ_base={"REMOTE_ADDR": "192.0.2.1"})

        self.assert_taken(answer, taken=False)

    @staticmethod
    def assert_taken(answer: TestResponse, taken: bool) -> None:
        """Assert that the response acknowledges the delivery or refuses the address."""
        if taken:
            assert answer.status_code == 200, answer.text
        else:
            assert "this address" in assert_problem(answer, 403, "AUTH_FORBIDDEN")["detail"]


class TestBarredAddresses:
    """An address with many wrong signatures is refused without further work. Right signatures are always accepted."""

    @pytest.fixture
    def strict(self, paying_services: Services) -> FlaskClient:
        settings = replace(paying_services.settings, rate_limit_scale=1, trusted_proxy_hops=1)
        return checked_app(replace(paying_services, settings=settings), AREAS).test_client()

    def send(self, strict: FlaskClient, address: str, body: bytes, signature: str) -> int:
        headers = {HEADER: signature, "X-Forwarded-For": address}
        return strict.post(WEBHOOK, data=body, headers=headers).status_code

    def test_sixth_wrong_signature_is_refused_by_address(self, strict: FlaskClient) -> None:
        network = f"2001:db8:{uuid4().hex[:4]}:{uuid4().hex[:4]}"
        RECORDER.take()
        answers = [self.send(strict, f"{network}::{number}", BODY, "x") for number in range(1, 8)]

        assert answers == [401] * 5 + [403] * 2
        assert RECORDER.take()[Key("webhook_rejected", "gateway", COUNT)] == 7
        signed = some_event()
        assert self.send(strict, f"{network}::9", signed, sign(signed)) == 200
        assert self.send(strict, "2001:db9::1", BODY, "x") == 401

    def test_without_the_cache_no_address_is_barred(self, paying_services: Services) -> None:
        services = replace(
            paying_services,
            settings=replace(paying_services.settings, rate_limit_scale=1),
            cache=Cache("redis://127.0.0.1:9/0"),
        )
        client = checked_app(services, AREAS).test_client()
        assert [deliver(client, BODY, "x").status_code for _ in range(7)] == [401] * 7
