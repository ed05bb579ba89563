"""The messaging provider's webhook over HTTP: verification handshake and signed deliveries."""

import hashlib
import hmac
from uuid import uuid4

import orjson
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from blueprints.areas import AREAS
from marketplace.infra.db import Database
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.probes import assert_problem, changed, from_address, unique_address

WEBHOOK = "/api/whatsapp/webhook"
TOKEN = "agreed-on-in-these-tests"
SECRET = "app-secret-of-these-tests"
HEADER = "X-Hub-Signature-256"


def sign(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()


def some_envelope() -> bytes:
    return orjson.dumps(
        {"object": "whatsapp_business_account", "entry": [{"id": uuid4().hex, "changes": []}]}
    )


def count_stored(database: Database, body: bytes) -> int:
    with database.reading() as session:
        rows = session.connection().exec_driver_sql(
            "SELECT count(*) FROM webhook_inbox WHERE provider = 'messaging' AND body = %(body)s",
            {"body": body},
        )
        return int(rows.scalar_one())


@pytest.fixture(scope="module")
def client(services: Services) -> FlaskClient:
    """A client of an application with both secrets."""
    agreed = changed(services, messaging_verify_token=TOKEN, messaging_app_secret=SECRET)
    return checked_app(agreed, AREAS).test_client()


@pytest.fixture(scope="module")
def client_without_secrets(services: Services) -> FlaskClient:
    """A client of an application without secrets, like the embedded stack."""
    return checked_app(
        changed(services, messaging_verify_token="", messaging_app_secret=""), AREAS
    ).test_client()


class TestHandshake:
    """Verification of the webhook address before the provider sends events."""

    @staticmethod
    def verify(client: FlaskClient, path: str = WEBHOOK, **changes: str | None) -> TestResponse:
        """Send the provider's verification request with changed parameters; None omits a parameter."""
        given = {"mode": "subscribe", "verify_token": TOKEN, "challenge": "1158201444"} | changes
        return client.get(
            path, query_string={f"hub.{name}": value for name, value in given.items() if value is not None}
        )

    @pytest.mark.parametrize("challenge", ["1158201444", "", "<script>", "é ü", "x" * 2_000])
    def test_challenge_is_returned_as_plain_text(self, client: FlaskClient, challenge: str) -> None:
        answer = self.verify(client, challenge=challenge)

        assert (answer.status_code, answer.text) == (200, challenge)
        assert answer.content_type == "text/plain; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    def test_versioned_path_answers_challenge(self, client: FlaskClient) -> None:
        assert self.verify(client, path="/api/v1/whatsapp/webhook").text == "1158201444"

    def test_additional_parameters_are_ignored(self, client: FlaskClient) -> None:
        answer = client.get(
            f"{WEBHOOK}?hub.mode=subscribe&hub.verify_token={TOKEN}&hub.challenge=7&hub.version=2&hubs=3&hubs=4"
        )

        assert (answer.status_code, answer.text) == (200, "7")

    @pytest.mark.parametrize(
        "changes",
        [
            {"verify_token": "another"},
            {"verify_token": TOKEN.upper()},
            {"verify_token": TOKEN + " "},
            {"verify_token": TOKEN + "\0"},
            {"verify_token": "é"},
            {"verify_token": ""},
            {"verify_token": None},
            {"mode": "unsubscribe"},
            {"mode": "Subscribe"},
            {"mode": None},
            {"mode": None, "verify_token": None, "challenge": None},
        ],
        ids=repr,
    )
    def test_wrong_mode_or_token_is_refused(
        self, client: FlaskClient, changes: dict[str, str | None]
    ) -> None:
        problem = assert_problem(self.verify(client, **changes), 403, "AUTH_FORBIDDEN")

        assert TOKEN not in str(problem)

    @pytest.mark.parametrize("token", ["", TOKEN, None])
    def test_without_configured_token_every_handshake_is_refused(
        self, client_without_secrets: FlaskClient, token: str | None
    ) -> None:
        assert_problem(self.verify(client_without_secrets, verify_token=token), 403, "AUTH_FORBIDDEN")

    def test_handshake_counts_on_caller_tier(self, services: Services) -> None:
        limited = changed(services, messaging_verify_token=TOKEN, rate_limit_scale=1)
        client = checked_app(limited, AREAS).test_client()
        caller = from_address(unique_address())

        answers = [client.get(WEBHOOK, **caller) for _ in range(61)]

        assert [answer.status_code for answer in answers] == [403] * 60 + [429]


@pytest.mark.parametrize(
    "body",
    [some_envelope(), b"not JSON", b"\x00\xff", b"", b"[1]"],
    ids=["envelope", "not JSON", "not text", "empty", "list"],
)
def test_signed_body_is_stored_unchanged(client: FlaskClient, database: Database, body: bytes) -> None:
    before = count_stored(database, body)

    answer = client.post(WEBHOOK, data=body, headers={HEADER: sign(body)})

    assert (answer.status_code, answer.data) == (200, b'{"received":true}')
    assert count_stored(database, body) == before + 1


BODY = some_envelope()
SIGNATURE = sign(BODY)


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        SIGNATURE.removeprefix("sha256="),
        SIGNATURE.replace("sha256=", "sha1=00"),
        SIGNATURE.upper(),
        SIGNATURE.replace("sha256=", "SHA256="),
        "sha256=" + SIGNATURE.removeprefix("sha256=").upper(),
        SIGNATURE[:-1],
        SIGNATURE + "0",
        f" {SIGNATURE[:-1]}",
        "sha256=" + "é" * 64,
        sign(BODY + b" "),
        sign(BODY, "another"),
        "sha256=" + hmac.digest(SECRET.encode(), BODY, hashlib.sha512).hex()[:64],
    ],
    ids=[
        "missing",
        "empty",
        "without scheme",
        "another scheme",
        "upper case",
        "scheme in upper case",
        "digits in upper case",
        "short",
        "long",
        "leading space",
        "not ASCII",
        "signature of another body",
        "signature with another secret",
        "signature with another hash",
    ],
)
def test_invalid_signature_is_refused(client: FlaskClient, database: Database, signature: str | None) -> None:
    headers = {} if signature is None else {HEADER: signature}

    problem = assert_problem(client.post(WEBHOOK, data=BODY, headers=headers), 401, "AUTH_UNAUTHORIZED")

    assert SIGNATURE not in str(problem)
    assert count_stored(database, BODY) == 0


def test_sha1_signature_alone_is_refused(client: FlaskClient) -> None:
    older = "sha1=" + hmac.digest(SECRET.encode(), BODY, hashlib.sha1).hex()

    answer = client.post(WEBHOOK, data=BODY, headers={"X-Hub-Signature": older})

    assert_problem(answer, 401, "AUTH_UNAUTHORIZED")


def test_without_app_secret_every_delivery_is_stored(
    client_without_secrets: FlaskClient, database: Database
) -> None:
    body = some_envelope()

    assert client_without_secrets.post(WEBHOOK, data=body).status_code == 200
    assert client_without_secrets.post(WEBHOOK, data=body, headers={HEADER: "nonsense"}).status_code == 200
    assert count_stored(database, body) == 2


def test_query_string_is_ignored(client: FlaskClient, database: Database) -> None:
    body = some_envelope()

    answer = client.post(f"{WEBHOOK}?x=1&x=2&hub.mode=x", data=body, headers={HEADER: sign(body)})

    assert (answer.status_code, count_stored(database, body)) == (200, 1)


def test_body_larger_than_size_limit_is_refused(client: FlaskClient, database: Database) -> None:
    fits, large = b"x" * (1024 * 1024), b"y" * (1024 * 1024 + 1)

    assert client.post(WEBHOOK, data=fits, headers={HEADER: sign(fits)}).status_code == 200
    assert_problem(client.post(WEBHOOK, data=large, headers={HEADER: sign(large)}), 413, "PAYLOAD_TOO_LARGE")
    assert count_stored(database, large) == 0


def test_compressed_body_is_refused(client: FlaskClient, database: Database) -> None:
    headers = {HEADER: SIGNATURE, "Content-Encoding": "gzip"}

    assert_problem(client.post(WEBHOOK, data=BODY, headers=headers), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert count_stored(database, BODY) == 0


def test_deliveries_are_not_rate_limited(services: Services) -> None:
    limited = changed(services, messaging_app_secret=SECRET, rate_limit_scale=1)
    client = checked_app(limited, AREAS).test_client()
    body = some_envelope()

    answers = [client.post(WEBHOOK, data=body, headers={HEADER: sign(body)}) for _ in range(70)]

    assert {answer.status_code for answer in answers} == {200}


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_methods_other_than_get_and_post_are_refused(client: FlaskClient, method: str) -> None:
    assert_problem(client.open(WEBHOOK, method=method), 405, "METHOD_NOT_ALLOWED")
