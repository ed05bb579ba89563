"""The interface for object storage, and the S3 adapter."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any, Protocol, TypeVar

import structlog

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.kernel.signals import RECORDER
from marketplace.kernel.tracing import span
from marketplace.providers import texts

_log = structlog.get_logger(__name__)
_MAX_LINK_SECONDS = 3600
# A storage that hangs ends a call after fifteen seconds, because a client waits for the answer.
_CONNECT_SECONDS, _READ_SECONDS = 1.5, 6.0
_ATTEMPTS = 2
_CHUNK_BYTES = 64 * 1024
# Keys are derived from the content, so the content of a key never changes.
IMMUTABLE_CACHE_CONTROL = "public, max-age=31536000, immutable"
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class StoredObject:
    """An object to store: key, content and HTTP headers for browsers."""

    key: str
    content: bytes
    content_type: str
    cache_control: str | None = None


class ObjectMissingError(Exception):
    """The storage has no object with the key."""


class ObjectStorage(Protocol):
    """Object storage with the public and the private bucket of the settings."""

    def put(
        self,
        *,
        bucket: str,
        key: str,
        content: bytes | IO[bytes],
        content_type: str,
        cache_control: str | None = None,
    ) -> None:
        """Store an object. An existing object with the same key is replaced."""

    def signed_link(self, *, bucket: str, key: str, seconds: int, download_name: str | None = None) -> str:
        """Return a temporary URL with public read access to an object."""

    def upload_link(self, *, bucket: str, key: str, seconds: int, content_type: str, byte_count: int) -> str:
        """Return a temporary URL that accepts an object by PUT."""

    def download(self, *, bucket: str, key: str, into: IO[bytes], max_bytes: int) -> bool:
        """Download an object into a file, and return whether the object exists within the limit."""

    def check_bucket(self, bucket: str) -> None:
        """Check that the bucket exists and the credentials may use the bucket."""

    def delete(self, *, bucket: str, key: str) -> None:
        """Delete an object. A missing object is not an error."""

    def list_keys(self, *, bucket: str, prefix: str) -> list[str]:
        """List the keys of all objects with a prefix, in order."""


class S3ObjectStorage:
    """The adapter for AWS S3 and compatible storage. The adapter is thread-safe."""

    def __init__(self, settings: Settings) -> None:
        """Create the adapter without the S3 client.

        The S3 client is large and most processes never need it. The first use therefore creates the S3 client.
        """
        self._settings = settings
        self._made_client: Any = None
        self._client_lock = threading.Lock()

    @property
    def _client(self) -> Any:
        with self._client_lock:
            if self._made_client is None:
                self._made_client = _make_client(self._settings)
            return self._made_client

    def put(
        self,
        *,
        bucket: str,
        key: str,
        content: bytes | IO[bytes],
        content_type: str,
        cache_control: str | None = None,
    ) -> None:
        """Store an object. An existing object with the same key is replaced.

        :param content: bytes, or an open file that is read in parts from the current position
        :param content_type: the Content-Type header for browsers
        :param cache_control: the Cache-Control header for browsers
        :raises ProviderUnavailableError: the storage reported no success
        """
        options = {"CacheControl": cache_control} if cache_control else {}
        self._call("put_object", Bucket=bucket, Key=key, Body=content, ContentType=content_type, **options)

    def signed_link(self, *, bucket: str, key: str, seconds: int, download_name: str | None = None) -> str:
        """Return a temporary URL with public read access to an object.

        The URL is computed locally, so the object may not exist.

        :param seconds: the validity in seconds, at most an hour
        :param download_name: the file name for a download; none displays the object in the browser
        :raises ValueError: the validity is out of range
        """
        _ensure_valid_duration(seconds)
        parameters = {"Bucket": bucket, "Key": key}
        if download_name is not None:
            safe = "".join(c for c in download_name if c.isascii() and (c.isalnum() or c in "._-"))
            parameters["ResponseContentDisposition"] = f'attachment; filename="{safe or "download"}"'
        return str(self._client.generate_presigned_url("get_object", Params=parameters, ExpiresIn=seconds))

    def upload_link(self, *, bucket: str, key: str, seconds: int, content_type: str, byte_count: int) -> str:
        """Return a temporary URL that accepts an object by PUT, with this size and type in the headers.

        The URL is computed locally. Check the object afterwards: not every storage compares the headers.

        :param seconds: the validity in seconds, at most an hour
        :raises ValueError: the validity is out of range
        """
        _ensure_valid_duration(seconds)
        return str(
            self._client.generate_presigned_url(
                "put_object",
                Params={
                    "Bucket": bucket,
                    "Key": key,
                    "ContentType": content_type,
                    "ContentLength": byte_count,
                },
                ExpiresIn=seconds,
            )
        )

    def download(self, *, bucket: str, key: str, into: IO[bytes], max_bytes: int) -> bool:
        """Download an object into a file.

        :return: whether the object exists and has at most ``max_bytes`` bytes; a longer object is cut
        :raises ProviderUnavailableError: the storage failed
        """
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - as in _call

        try:
            body = self._call("get_object", Bucket=bucket, Key=key)["Body"]
        except ObjectMissingError:
            return False
        size = 0
        try:
            for chunk in body.iter_chunks(_CHUNK_BYTES):
                size += len(chunk)
                if size > max_bytes:
                    return False
                into.write(chunk)
        except (BotoCoreError, ClientError) as error:
            raise _unavailable_error() from error
        finally:
            body.close()
        return True

    def check_bucket(self, bucket: str) -> None:
        """Check that the bucket exists and the credentials may use the bucket.

        :raises ProviderUnavailableError: the storage failed, or refused the bucket
        """
        self._call("head_bucket", Bucket=bucket)

    def delete(self, *, bucket: str, key: str) -> None:
        """Delete an object. A missing object is not an error.

        :raises ProviderUnavailableError: the outcome is unknown
        """
        self._call("delete_object", Bucket=bucket, Key=key)

    def list_keys(self, *, bucket: str, prefix: str) -> list[str]:
        """List the keys of all objects with a prefix, in order.

        :raises ProviderUnavailableError: the storage failed
        """
        keys: list[str] = []
        more: dict[str, str] = {}
        while True:
            page = self._call("list_objects_v2", Bucket=bucket, Prefix=prefix, **more)
            keys += [item["Key"] for item in page.get("Contents", ())]
            if not page.get("IsTruncated"):
                return sorted(keys)
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _call(self, operation: str, **arguments: Any) -> Any:
        # Imported here because most processes never need botocore.
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        call = getattr(self._client, operation)
        started = time.perf_counter()
        failure: str | None = None
        try:
            with span(f"{operation} object storage", kind="client", marketplace__provider="object storage"):
                return call(**arguments)
        except (BotoCoreError, ClientError) as error:
            code = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None
            failure = str(code or type(error).__name__)
            if code == "NoSuchKey":
                raise ObjectMissingError from None
            _log.warning("storage unavailable", operation=operation, reason=failure)
            raise _unavailable_error() from error
        finally:
            seconds = time.perf_counter() - started
            outcome = "ok" if failure in (None, "NoSuchKey") else "unavailable"
            RECORDER.observe("provider", f"object storage {outcome}", seconds)
            _log.debug(
                "storage called",
                operation=operation,
                key=arguments.get("Key", arguments.get("Prefix")),
                failure=failure,
                durationMs=round(seconds * 1000, 1),
            )


def _ensure_valid_duration(seconds: int) -> None:
    if not 1 <= seconds <= _MAX_LINK_SECONDS:
        raise ValueError(f"a signed link must be valid for 1 to {_MAX_LINK_SECONDS} seconds")


def _unavailable_error() -> ProviderUnavailableError:
    return ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider="object storage"))


def put_all(storage: ObjectStorage, *, bucket: str, objects: Sequence[StoredObject]) -> None:
    """Store several objects concurrently.

    :raises ProviderUnavailableError: the storage did not report success for all objects
    """

    def put(item: StoredObject) -> None:
        storage.put(
            bucket=bucket,
            key=item.key,
            content=item.content,
            content_type=item.content_type,
            cache_control=item.cache_control,
        )

    _run_concurrently(put, objects)


def delete_all(storage: ObjectStorage, *, bucket: str, keys: Iterable[str]) -> None:
    """Delete several objects concurrently. A missing object is not an error.

    :raises ProviderUnavailableError: the outcome is unknown for at least one object
    """
    _run_concurrently(lambda key: storage.delete(bucket=bucket, key=key), list(keys))


def _run_concurrently(call: Callable[[_Item], None], items: Sequence[_Item]) -> None:
    """Make all calls, then raise the error of the first failed call, if any."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        for done in [pool.submit(call, item) for item in items]:
            done.result()


def _make_client(settings: Settings) -> Any:
    # Imported here because the import takes a tenth of a second and some megabytes.
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return boto3.session.Session().client(
        "s3",
        endpoint_url=settings.s3_endpoint_url or None,
        region_name=settings.s3_region,
        aws_access_key_id=settings.s3_access_key_id,
        aws_secret_access_key=settings.s3_secret_access_key,
        config=Config(
            signature_version="s3v4",
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            # All calls are idempotent, because a key always has the same content.
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
            max_pool_connections=16,
            # With other storage than AWS, bucket names in host names would need a DNS record for each bucket.
            s3={"addressing_style": "path" if settings.s3_endpoint_url else "auto"},
            # Some S3-compatible storage does not support optional checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            # A proxy from the environment could read private objects.
            proxies={},
        ),
    )
