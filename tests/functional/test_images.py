"""Product images on a real web process and object storage: served files, and removal."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from marketplace.infra.db import Database
from sandbox.personas import persona_named
from sandbox.process import Process, wait_until
from tests.support.hostile_images import ATTACKS
from tests.support.installation import Installation, start_installation
from tests.support.market import Market
from tests.support.probes import closed_port
from tests.support.sample_images import decode_image, encode_image, gradient, photo
from tests.support.servers import PROJECT, Addresses

MEGABYTE = 1024 * 1024
SECONDS = 30


@dataclass
class Site:
    """A web process of the waiting group and the installation behind the process."""

    installation: Installation
    url: str
    process: Process
    headers: dict[str, str] = field(default_factory=dict)

    def post(self, content: Any, **more: Any) -> requests.Response:
        return requests.post(
            f"{self.url}/api/products/images",
            headers=self.headers,
            timeout=SECONDS,
            **({"files": {"file": ("a.jpg", content)}} | more),
        )

    def stored(self, content: bytes) -> dict[str, Any]:
        response = self.post(content)
        assert response.status_code == 201, response.text
        data: dict[str, Any] = response.json()["data"]
        return data

    def chunked(self, parts: Iterator[bytes]) -> requests.Response:
        head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

        def body() -> Iterator[bytes]:
            yield head
            yield from parts
            yield b"\r\n--b--\r\n"

        return requests.post(
            f"{self.url}/api/products/images",
            headers=self.headers | {"Content-Type": "multipart/form-data; boundary=b"},
            data=body(),
            timeout=SECONDS,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, addresses: Addresses) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("images")
    with start_installation(directory, addresses) as installation:
        port = closed_port()
        installation.environment |= {
            "S3_PUBLIC_URL": f"{installation.storage.url}/marketplace-public",
            "PUBLIC_BASE_URL": f"http://127.0.0.1:{port}",
        }
        process = web(directory, installation, port)
        process.launch()
        try:
            made = Site(installation, f"http://127.0.0.1:{port}", process)
            wait_until(lambda: answers(made.url) or not process.running, timeout_seconds=SECONDS)
            assert process.running, process.log_tail(30)
            sign_in(made)
            yield made
        finally:
            process.stop(timeout_seconds=0)


def web(directory: Path, installation: Installation, port: int) -> Process:
    return Process(
        "web",
        [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "wsgi:app"],
        log_path=directory / "web.log",
        directory=PROJECT,
        environment=installation.environment
        | {"WORKER_CLASS": "gevent", "WEB_BIND": f"127.0.0.1:{port}"}
        | {"RATE_LIMIT_SCALE": "1000", "DATABASE_WAIT_SCALE": "20"},
    )


def sign_in(site: Site) -> None:
    """Sign in as the sandbox's vendor, with a profile in the database."""
    vendor = persona_named("vendor")
    database = Database(site.installation.database_url, pool_size=1, application_name="tests")
    Market(database).person(id=vendor.user_id, role="vendor")
    database.close()
    answer = requests.post(
        f"{site.installation.providers.identity_issuer}/sandbox/token", json={"persona": "vendor"}, timeout=5
    )
    site.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/health/live", timeout=2).status_code == 200
    except requests.RequestException:
        return False


def test_all_sizes_are_served_with_content_type_and_long_cache_lifetime(site: Site) -> None:
    for kind, content_type in {"JPEG": "image/jpeg", "PNG": "image/png", "GIF": "image/gif"}.items():
        content = encode_image(gradient(2100, 1400), kind, comment=b"A secret")
        data = site.stored(content)

        assert [one["width"] for one in data["sizes"]] == [320, 800, 1600, 1600]
        assert data["sizes"][-1]["contentType"] == content_type
        for one in data["sizes"]:
            answer = requests.get(one["url"], timeout=SECONDS)
            assert answer.status_code == 200
            assert answer.headers["Content-Type"] == one["contentType"]
            assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert decode_image(answer.content).size == (one["width"], one["height"])
            assert b"secret" not in answer.content


def test_location_is_removed_from_a_photograph(site: Site) -> None:
    exif = decode_image(photo(8, 8)).getexif()
    exif[0x0112] = 6
    exif[0x8825] = {1: "N", 2: (6.0, 27.0, 14.0), 3: "E", 4: (3.0, 23.0, 40.0)}
    data = site.stored(photo(1200, 900, exif=exif))

    assert (data["width"], data["height"]) == (600, 800)
    for one in data["sizes"]:
        content = requests.get(one["url"], timeout=SECONDS).content
        assert dict(decode_image(content).getexif()) == {}
        assert b"Exif" not in content


def test_body_without_length_is_accepted_and_endless_body_is_refused(site: Site) -> None:
    content = photo(300, 200)

    assert site.chunked(iter([content[:1000], content[1000:]])).status_code == 201
    refused = site.chunked(content for _ in range(5 * MEGABYTE // len(content) + 2))
    assert (refused.status_code, refused.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize("more", [1, MEGABYTE])
def test_file_over_five_megabytes_is_refused(site: Site, more: int) -> None:
    content = photo(30, 20)

    refused = site.post(content + bytes(5 * MEGABYTE + more - len(content)))

    assert (refused.status_code, refused.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert site.post(content + bytes(5 * MEGABYTE - len(content))).status_code == 201


@pytest.mark.parametrize(
    "name", ["PNG of 50,000 by 50,000", "JPEG of 1 by 65,000", "half a JPEG", "SVG", "ZIP"]
)
def test_attack_file_is_refused_as_a_problem(site: Site, name: str) -> None:
    make, status = ATTACKS[name]

    refused = site.post(make())

    assert refused.status_code == status
    assert refused.headers["Content-Type"] == "application/problem+json"


def test_other_requests_are_served_while_an_image_is_rendered(site: Site) -> None:
    """A single process serves all waiting requests, so another process must decode."""
    content = photo(7000, 6000, quality=40)
    done = threading.Event()
    statuses = []

    def upload() -> None:
        statuses.append(site.post(content).status_code)
        done.set()

    thread = threading.Thread(target=upload)
    thread.start()
    served = 0
    while not done.is_set():
        assert answers(site.url)
        served += 1
    thread.join(SECONDS)

    assert statuses == [201]
    # Rendering takes some hundred milliseconds, and a health check takes a few.
    assert served >= 5


def test_unused_images_are_swept_after_a_day(site: Site) -> None:
    data = site.stored(photo(640, 480))
    urls = [one["url"] for one in data["sizes"]]

    site.installation.ok("periodic", "run", "sweep-images", "--now", "+23h")
    assert {requests.get(url, timeout=SECONDS).status_code for url in urls} == {200}
    output = site.installation.ok("periodic", "run", "sweep-images", "--now", "+25h")

    assert "marked" in output
    assert {requests.get(url, timeout=SECONDS).status_code for url in urls} == {404}


def test_upload_without_object_storage_is_refused_as_unavailable(site: Site) -> None:
    site.installation.storage.stop()
    try:
        refused = site.post(photo(222, 111))
    finally:
        site.installation.storage.start()

    assert (refused.status_code, refused.json()["code"]) == (502, "PROVIDER_UNAVAILABLE")
