"""S3 adapter on a real server: stored objects are readable, links expire, and all failures raise the same error."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import botocore.auth
import pytest
import requests

from marketplace.infra.settings import Settings, load_settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import storage as storage_adapter
from marketplace.providers.storage import IMMUTABLE_CACHE_CONTROL, S3ObjectStorage
from tests.support.installation import start_installation
from tests.support.servers import Addresses


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, addresses: Addresses) -> Iterator[dict[str, str]]:
    with start_installation(tmp_path_factory.mktemp("installation"), addresses) as installation:
        yield installation.environment


@pytest.fixture
def settings(environment: dict[str, str]) -> Settings:
    return load_settings(environment)


def status(link: str) -> int:
    return requests.get(link, timeout=10).status_code


def test_private_object_is_read_only_through_signed_link(settings: Settings) -> None:
    storage, bucket = S3ObjectStorage(settings), settings.s3_private_bucket
    storage.put(bucket=bucket, key="ids/1.webp", content=b"one", content_type="image/webp")
    assert status(f"{settings.s3_endpoint_url}/{bucket}/ids/1.webp") == 403
    link = storage.signed_link(bucket=bucket, key="ids/1.webp", seconds=60, download_name='a "b"\n.webp')
    answer = requests.get(link, timeout=10)
    assert (answer.status_code, answer.content) == (200, b"one")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="ab.webp"'
    assert status(link.replace("ids/1", "ids/2")) == 403
    storage.delete(bucket=bucket, key="ids/1.webp")
    storage.delete(bucket=bucket, key="ids/1.webp")
    assert status(link) == 404


def test_public_object_is_readable_without_link_and_cacheable(settings: Settings) -> None:
    storage, bucket = S3ObjectStorage(settings), settings.s3_public_bucket
    for content in (b"one", b"two"):
        storage.put(
            bucket=bucket,
            key="products/1.webp",
            content=content,
            content_type="image/webp",
            cache_control=IMMUTABLE_CACHE_CONTROL,
        )
    answer = requests.get(f"{settings.s3_endpoint_url}/{bucket}/products/1.webp", timeout=10)
    assert answer.content == b"two"
    assert answer.headers["Cache-Control"] == IMMUTABLE_CACHE_CONTROL


def test_link_ends_with_the_lifetime(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, bucket = S3ObjectStorage(settings), settings.s3_private_bucket
    storage.put(bucket=bucket, key="exports/1.zip", content=b"one", content_type="application/zip")

    def link_from(age_seconds: int) -> str:
        signed_at = datetime.now(UTC) - timedelta(seconds=age_seconds)
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: signed_at)
        return storage.signed_link(bucket=bucket, key="exports/1.zip", seconds=60)

    assert status(link_from(0)) == 200
    assert status(link_from(62)) == 403


@pytest.mark.parametrize("seconds", [0, 3601])
def test_link_lifetime_is_limited(settings: Settings, seconds: int) -> None:
    with pytest.raises(ValueError, match="1 to 3600"):
        S3ObjectStorage(settings).signed_link(bucket="b", key="k", seconds=seconds)


@pytest.mark.parametrize(
    "changes",
    [
        {"S3_ENDPOINT_URL": "http://127.0.0.1:1"},
        {"S3_SECRET_ACCESS_KEY": "another"},
    ],
)
def test_failures_raise_provider_error_without_details(
    environment: dict[str, str], changes: dict[str, str]
) -> None:
    changed = load_settings(environment | changes)
    storage = S3ObjectStorage(changed)
    with pytest.raises(ProviderUnavailableError) as error:
        storage.put(bucket=changed.s3_private_bucket, key="k", content=b"", content_type="text/plain")
    assert "127.0.0.1" not in str(error.value)


def test_hanging_storage_ends_a_call_after_two_attempts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = storage_adapter._CONNECT_SECONDS, storage_adapter._READ_SECONDS
    assert sum(limits) * storage_adapter._ATTEMPTS <= 15
    monkeypatch.setattr(storage_adapter, "_READ_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        storage = S3ObjectStorage(replace(settings, s3_endpoint_url=url))
        with pytest.raises(ProviderUnavailableError):
            storage.put(bucket="b", key="k", content=b"7", content_type="text/plain")
        attempts = [server.accept()[0] for _ in range(storage_adapter._ATTEMPTS)]
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
        for attempt in attempts:
            attempt.close()
