"""In-memory object storage for tests of other areas, with optional failures."""

from typing import IO

from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.storage import StoredObject

_BUCKETS = ("marketplace-public", "marketplace-private")


class InMemoryStorage:
    """A storage with the content in ``objects`` by key. With ``fails`` every call fails."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.deleted: list[str] = []
        self.announced: set[str] = set()
        self.puts = 0
        self.fails = False

    def put(
        self,
        *,
        bucket: str,
        key: str,
        content: bytes | IO[bytes],
        content_type: str,
        cache_control: str | None = None,
    ) -> None:
        self._answer()
        assert bucket in _BUCKETS
        self.puts += 1
        stored = content if isinstance(content, bytes) else content.read()
        self.objects[key] = StoredObject(key, stored, content_type, cache_control)

    def delete(self, *, bucket: str, key: str) -> None:
        self._answer()
        assert bucket in _BUCKETS
        self.deleted.append(key)
        self.objects.pop(key, None)

    def check_bucket(self, bucket: str) -> None:
        self._answer()
        assert bucket in _BUCKETS

    def list_keys(self, *, bucket: str, prefix: str) -> list[str]:
        self._answer()
        assert bucket in _BUCKETS
        return sorted(key for key in self.objects if key.startswith(prefix))

    def signed_link(self, *, bucket: str, key: str, seconds: int, download_name: str | None = None) -> str:
        assert bucket == "marketplace-private"
        assert key in self.objects or key in self.announced
        return f"https://storage.test/{bucket}/{key}?seconds={seconds}&name={download_name}"

    def upload_link(self, *, bucket: str, key: str, seconds: int, content_type: str, byte_count: int) -> str:
        assert bucket == "marketplace-private"
        self.announced.add(key)
        return f"https://storage.test/{bucket}/{key}?seconds={seconds}&type={content_type}&size={byte_count}"

    def download(self, *, bucket: str, key: str, into: IO[bytes], max_bytes: int) -> bool:
        self._answer()
        assert bucket in _BUCKETS
        stored = self.objects.get(key)
        if stored is None or len(stored.content) > max_bytes:
            return False
        into.write(stored.content)
        return True

    def _answer(self) -> None:
        if self.fails:
            raise ProviderUnavailableError("The object storage did not answer as it should. Try again.")
