"""The upload term: a body that is a file of any size, read as it comes, held as long as the request."""

import hashlib
import io
from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.http.context import Context
from blueprints.http.contract import AUTHENTICATED, Idempotency, Upload
from blueprints.http.uploads import UploadedFile
from marketplace.services import Services
from tests.support.market import Bearer
from tests.support.probes import assert_problem, probe_area, serve

MEGABYTE = 1024 * 1024
area = probe_area()
held: list[UploadedFile] = []
_TERMS: dict[str, Any] = {"auth": AUTHENTICATED, "limit": "1000/minute"}


@area.post("/films", upload=Upload("film", max_bytes=20 * MEGABYTE, accepts=("video/mp4",)), **_TERMS)
def take_film(_ctx: Context, file: UploadedFile) -> dict[str, Any]:
    held.append(file)
    file.content.seek(0)
    return {"size": file.size, "sha256": file.sha256, "head": file.content.read(4).decode()}


@area.post(
    "/once",
    upload=Upload("film", max_bytes=MEGABYTE, accepts=("video/mp4",)),
    idempotent=Idempotency.REQUIRED,
    **_TERMS,
)
def take_once(_ctx: Context, file: UploadedFile) -> str:
    held.append(file)
    return file.sha256


@area.post("/broken", upload=Upload("film", max_bytes=MEGABYTE, accepts=("video/mp4",)), **_TERMS)
def take_and_fail(_ctx: Context, file: UploadedFile) -> str:
    held.append(file)
    raise ZeroDivisionError


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area)


@pytest.fixture
def headers(bearer: Bearer) -> dict[str, str]:
    held.clear()
    return bearer(uuid4())


def send(
    probe: FlaskClient,
    content: bytes,
    headers: dict[str, str],
    path: str = "films",
    end: bytes = b"\r\n--b--\r\n",
) -> Any:
    body = b'--b\r\nContent-Disposition: form-data; name="film"; filename="f"\r\n\r\n' + content + end
    return probe.post(
        f"/api/probe/{path}",
        input_stream=io.BytesIO(body),
        content_type="multipart/form-data; boundary=b",
        headers=headers,
    )


def test_a_file_far_larger_than_other_bodies_may_be(probe: FlaskClient, headers: dict[str, str]) -> None:
    content = b"film" + bytes(range(256)) * 4096 * 19 + b"\r\n--bb\r\n--"

    answer = send(probe, content, headers)

    expected = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "head": "film"}
    assert (answer.status_code, answer.json["data"]) == (200, expected)


@pytest.mark.parametrize("length", [0, 1, 65_535, 65_536, 65_537, 20 * MEGABYTE])
def test_every_byte_of_it_arrives(probe: FlaskClient, headers: dict[str, str], length: int) -> None:
    content = (b"\r\n--bb" * (length // 6 + 1))[: length - 1] + b"." if length else b""

    data = send(probe, content, headers).json["data"]

    assert (data["size"], data["sha256"]) == (length, hashlib.sha256(content).hexdigest())


def test_its_bound_is_the_routes_own(probe: FlaskClient, headers: dict[str, str]) -> None:
    refused = send(probe, bytes(20 * MEGABYTE + 1), headers)

    assert "20 MB" in assert_problem(refused, 413, "PAYLOAD_TOO_LARGE")["detail"]


def test_it_is_closed_when_the_request_ends_however_it_ends(
    probe: FlaskClient, headers: dict[str, str]
) -> None:
    send(probe, b"film", headers)
    assert_problem(send(probe, b"film", headers, "broken"), 500, "INTERNAL_ERROR")

    assert [file.content.closed for file in held] == [True, True]


def test_what_stands_behind_it_may_be_cut_off(probe: FlaskClient, headers: dict[str, str]) -> None:
    """A client that breaks off before the end sent no file."""
    assert_problem(send(probe, b"film", headers, end=b"\r\n--b"), 400, "VALIDATION_FAILED")
    assert held == []


@pytest.mark.parametrize("head", [b"--b\r\n" + b"X: y\r\n" * 200_000, b"x" * 1_000_000])
def test_headers_of_a_part_are_bounded_and_so_is_what_comes_before(
    probe: FlaskClient, headers: dict[str, str], head: bytes
) -> None:
    response = probe.post(
        "/api/probe/films",
        input_stream=io.BytesIO(head),
        content_type="multipart/form-data; boundary=b",
        headers=headers,
    )

    assert_problem(response, 413, "PAYLOAD_TOO_LARGE")


def test_a_key_stands_for_the_file_that_it_came_with(probe: FlaskClient, headers: dict[str, str]) -> None:
    keyed = headers | {"Idempotency-Key": str(uuid4())}

    first, again = send(probe, b"one", keyed, "once"), send(probe, b"one", keyed, "once")

    assert again.data == first.data
    assert again.headers["X-Cache-Lookup"] == "HIT"
    assert len(held) == 1
    assert send(probe, b"two", keyed, "once").status_code == 422
