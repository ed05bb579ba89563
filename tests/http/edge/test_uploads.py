"""File upload routes: a large body, streamed and kept until the end of the request."""

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
received_files: list[UploadedFile] = []
_TERMS: dict[str, Any] = {"auth": AUTHENTICATED, "limit": "1000/minute"}


@area.post("/films", upload=Upload("film", max_bytes=20 * MEGABYTE, accepts=("video/mp4",)), **_TERMS)
def take_film(_ctx: Context, file: UploadedFile) -> dict[str, Any]:
    received_files.append(file)
    file.content.seek(0)
    return {"size": file.size, "sha256": file.sha256, "head": file.content.read(4).decode()}


@area.post(
    "/once",
    upload=Upload("film", max_bytes=MEGABYTE, accepts=("video/mp4",)),
    idempotent=Idempotency.REQUIRED,
    **_TERMS,
)
def take_once(_ctx: Context, file: UploadedFile) -> str:
    received_files.append(file)
    return file.sha256


@area.post("/broken", upload=Upload("film", max_bytes=MEGABYTE, accepts=("video/mp4",)), **_TERMS)
def take_and_fail(_ctx: Context, file: UploadedFile) -> str:
    received_files.append(file)
    raise ZeroDivisionError


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area)


@pytest.fixture
def headers(bearer: Bearer) -> dict[str, str]:
    received_files.clear()
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


def test_upload_may_exceed_general_body_limit(probe: FlaskClient, headers: dict[str, str]) -> None:
    content = b"film" + bytes(range(256)) * 4096 * 19 + b"\r\n--bb\r\n--"

    answer = send(probe, content, headers)

    expected = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "head": "film"}
    assert (answer.status_code, answer.json["data"]) == (200, expected)


@pytest.mark.parametrize("length", [0, 1, 65_535, 65_536, 65_537, 20 * MEGABYTE])
def test_every_uploaded_byte_is_received(probe: FlaskClient, headers: dict[str, str], length: int) -> None:
    content = (b"\r\n--bb" * (length // 6 + 1))[: length - 1] + b"." if length else b""

    data = send(probe, content, headers).json["data"]

    assert (data["size"], data["sha256"]) == (length, hashlib.sha256(content).hexdigest())


def test_upload_larger_than_route_limit_is_refused(probe: FlaskClient, headers: dict[str, str]) -> None:
    refused = send(probe, bytes(20 * MEGABYTE + 1), headers)

    assert "20 MB" in assert_problem(refused, 413, "PAYLOAD_TOO_LARGE")["detail"]


def test_uploaded_file_is_closed_after_success_and_error(probe: FlaskClient, headers: dict[str, str]) -> None:
    send(probe, b"film", headers)
    assert_problem(send(probe, b"film", headers, "broken"), 500, "INTERNAL_ERROR")

    assert [file.content.closed for file in received_files] == [True, True]


def test_upload_without_final_boundary_is_bad_request(probe: FlaskClient, headers: dict[str, str]) -> None:
    """A body without final boundary contains no complete file."""
    assert_problem(send(probe, b"film", headers, end=b"\r\n--b"), 400, "VALIDATION_FAILED")
    assert received_files == []


@pytest.mark.parametrize("head", [b"--b\r\n" + b"X: y\r\n" * 200_000, b"x" * 1_000_000])
def test_oversized_part_headers_or_preamble_are_refused(
    probe: FlaskClient, headers: dict[str, str], head: bytes
) -> None:
    response = probe.post(
        "/api/probe/films",
        input_stream=io.BytesIO(head),
        content_type="multipart/form-data; boundary=b",
        headers=headers,
    )

    assert_problem(response, 413, "PAYLOAD_TOO_LARGE")


def test_same_key_with_another_file_is_refused(probe: FlaskClient, headers: dict[str, str]) -> None:
    keyed = headers | {"Idempotency-Key": str(uuid4())}

    first, again = send(probe, b"one", keyed, "once"), send(probe, b"one", keyed, "once")

    assert again.data == first.data
    assert again.headers["X-Cache-Lookup"] == "HIT"
    assert len(received_files) == 1
    assert send(probe, b"two", keyed, "once").status_code == 422
