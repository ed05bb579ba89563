"""Object storage: what the domain asks of it, and the adapter of the S3 interface."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import structlog

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError

_log = structlog.get_logger(__name__)
_MAX_LINK_SECONDS = 3600
# The key is made of the content, so what was read once never changes.
IMMUTABLE_CACHE_CONTROL = "public, max-age=31536000, immutable"
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class StoredObject:
    """An object that is to be stored: its name, its content, and what browsers shall be told of it."""

    key: str
    content: bytes
    content_type: str
    cache_control: str | None = None


class ObjectStorage(Protocol):
    """What the domain asks of object storage. A bucket is one of the settings' two."""

    def put(
        self, *, bucket: str, key: str, content: bytes, content_type: str, cache_control: str | None = None
    ) -> None:
        """Store an object, replacing what was there under its key."""

    def signed_link(self, *, bucket: str, key: str, seconds: int, download_name: str | None = None) -> str:
        """Give an address under which anybody may read one object for a while."""

    def delete(self, *, bucket: str, key: str) -> None:
        """Delete an object; that there is none is no error."""


class S3ObjectStorage:
    """The S3 interface, of AWS or of anything that speaks it. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        """Make the adapter; its client is made when it is first used.

        It is large, and most processes never need it.
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
        self, *, bucket: str, key: str, content: bytes, content_type: str, cache_control: str | None = None
    ) -> None:
        """Store an object, replacing what was there under its key.

        :param bucket: the public or the private one
        :param key: the object's name in it
        :param content: all of it
        :param content_type: as browsers shall be told
        :param cache_control: how long they may keep it
        :raises ProviderUnavailableError: it was not stored
        """
        options = {"CacheControl": cache_control} if cache_control else {}
        self._call("put_object", Bucket=bucket, Key=key, Body=content, ContentType=content_type, **options)

    def signed_link(self, *, bucket: str, key: str, seconds: int, download_name: str | None = None) -> str:
        """Give an address under which anybody may read one object for a while.

        It is made without asking the storage, whether or not there is such an object.

        :param seconds: how long, at most an hour
        :param download_name: the name that a browser saves it under; none shows it
        :raises ValueError: it would be good for too long
        """
        if not 1 <= seconds <= _MAX_LINK_SECONDS:
            raise ValueError(f"a signed link is good for 1 to {_MAX_LINK_SECONDS} seconds")
        parameters = {"Bucket": bucket, "Key": key}
        if download_name is not None:
            safe = "".join(c for c in download_name if c.isascii() and (c.isalnum() or c in "._-"))
            parameters["ResponseContentDisposition"] = f'attachment; filename="{safe or "download"}"'
        return str(self._client.generate_presigned_url("get_object", Params=parameters, ExpiresIn=seconds))

    def delete(self, *, bucket: str, key: str) -> None:
        """Delete an object; that there is none is no error.

        :raises ProviderUnavailableError: whether it was deleted is unknown
        """
        self._call("delete_object", Bucket=bucket, Key=key)

    def _call(self, operation: str, **arguments: Any) -> None:
        # As the client: most processes never need them.
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        call = getattr(self._client, operation)
        started = time.perf_counter()
        failure: str | None = None
        try:
            call(**arguments)
        except (BotoCoreError, ClientError) as error:
            failure = str(getattr(error, "response", {}).get("Error", {}).get("Code") or type(error).__name__)
            _log.warning("storage unavailable", operation=operation, reason=failure)
            raise ProviderUnavailableError(
                "The object storage did not answer as it should. Try again."
            ) from error
        finally:
            _log.debug(
                "storage called",
                operation=operation,
                key=arguments["Key"],
                failure=failure,
                durationMs=round((time.perf_counter() - started) * 1000, 1),
            )


def put_all(storage: ObjectStorage, *, bucket: str, objects: Sequence[StoredObject]) -> None:
    """Store several objects side by side.

    :param bucket: the public or the private one
    :raises ProviderUnavailableError: not all of them were stored
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
    """Delete several objects side by side; that one is not there is no error.

    :param bucket: the public or the private one
    :raises ProviderUnavailableError: whether all of them were deleted is unknown
    """
    _run_concurrently(lambda key: storage.delete(bucket=bucket, key=key), list(keys))


def _run_concurrently(call: Callable[[_Item], None], items: Sequence[_Item]) -> None:
    """Make the calls, all of them, and raise what the first that failed raised."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        for done in [pool.submit(call, item) for item in items]:
            done.result()


def _make_client(settings: Settings) -> Any:
    # Not at the top: this takes a tenth of a second and some megabytes.
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
            connect_timeout=3,
            read_timeout=15,
            # Every call may be repeated: the same key gets the same content.
            retries={"total_max_attempts": 3, "mode": "standard"},
            max_pool_connections=16,
            # Buckets as host names would need a name for each at whatever stands in for AWS.
            s3={"addressing_style": "path" if settings.s3_endpoint_url else "auto"},
            # Checksums beyond those that S3 demands are not understood by all that speak its interface.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            # A proxy of the environment would see what is private.
            proxies={},
        ),
    )
