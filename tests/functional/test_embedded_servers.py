"""Embedded servers: start, response, data retention, stop, and end with the parent process."""

import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import psutil
import psycopg2
import pytest
import redis
import requests
from botocore.config import Config

from sandbox import capabilities
from sandbox.ports import PAIRED_DISTANCE, is_free
from sandbox.process import Process, ProcessFailedError, wait_until
from sandbox.servers import EmbeddedObjectStorage, EmbeddedPostgres, EmbeddedValkey, Server
from tests.support.embedded_servers import (
    MAKERS,
    PASSWORD,
    make_object_storage,
    make_postgres,
    make_proxy,
)
from tests.support.ports import free_port
from tests.support.probes import WAIT_SECONDS

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def running() -> Iterator[Callable[[Server], None]]:
    started: list[Server] = []

    def start(server: Server) -> None:
        started.append(server)
        server.start()

    yield start
    for server in started:
        server.stop()


def s3_client(server: EmbeddedObjectStorage) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server.url,
        aws_access_key_id=server.access_key_id,
        aws_secret_access_key=server.secret_access_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
    )


def query(address: str, sql: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(address, connect_timeout=5)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def test_postgres_keeps_data_and_provides_extensions(
    tmp_path: Path, running: Callable[[Server], None]
) -> None:
    server = make_postgres(tmp_path)
    running(server)
    query(server.url, "CREATE EXTENSION pg_trgm; CREATE EXTENSION unaccent; CREATE TABLE kept (id int)")
    query(server.url, "INSERT INTO kept VALUES (7)")
    assert query(server.url, "SHOW fsync") == [("off",)]
    assert query(server.url, "SELECT lower('ÀB'), current_database()") == [("àb", "shop")]
    assert server.stop()

    running(server)
    assert query(server.url, "SELECT id FROM kept") == [(7,)]


def test_postgres_is_durable_by_default_and_requires_password(
    tmp_path: Path, running: Callable[[Server], None]
) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres", free_port("server"), password=PASSWORD)
    running(server)
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert query(server.url, f"SHOW {setting}") == [("on",)]
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        query(server.url.replace(PASSWORD, "another"), "SELECT 1")
    other = EmbeddedPostgres(server.directory, server.port, password="another")
    with pytest.raises(ProcessFailedError, match="another password"):
        other.is_ready()


def test_postgres_starts_despite_lock_of_a_killed_run(
    tmp_path: Path, running: Callable[[Server], None]
) -> None:
    server = make_postgres(tmp_path)
    running(server)
    assert server.stop()
    # The lock contains the process id of this test, as if the system had reused the id of the killed server.
    lock = server.directory / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{server.directory}\n1\n{server.port}\n\n127.0.0.1\n")
    running(server)
    assert query(server.url, "SELECT 1") == [(1,)]


def test_postgres_reports_why_start_failed(tmp_path: Path) -> None:
    server = EmbeddedPostgres(
        tmp_path / "postgres", free_port("server"), password=PASSWORD, settings={"work_mem": "nonsense"}
    )
    with pytest.raises(ProcessFailedError, match="invalid value for parameter"):
        server.start()
    assert server.process is not None
    assert not server.process.running


@pytest.mark.parametrize("durable", [True, False])
def test_valkey_keeps_data_only_if_durable(
    tmp_path: Path, running: Callable[[Server], None], *, durable: bool
) -> None:
    server = EmbeddedValkey(tmp_path / "valkey", free_port("server"), password=PASSWORD, durable=durable)
    running(server)
    with redis.Redis.from_url(server.url) as client:
        client.set("kept", "7")
        assert client.eval("return redis.call('get', KEYS[1])", 1, "kept") == b"7"
    with (
        redis.Redis.from_url(server.url.replace(PASSWORD, "another")) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()
    assert server.stop()

    running(server)
    with redis.Redis.from_url(server.url) as client:
        assert client.get("kept") == (b"7" if durable else None)


def test_object_storage_serves_only_the_public_bucket(
    tmp_path: Path, running: Callable[[Server], None]
) -> None:
    server = make_object_storage(tmp_path)
    running(server)
    client = s3_client(server)
    for bucket in (server.public_bucket, server.private_bucket):
        client.put_object(Bucket=bucket, Key="a/b.jpg", Body=b"picture", ContentType="image/jpeg")
    public, private = (f"{server.url}/{name}" for name in (server.public_bucket, server.private_bucket))

    read = requests.get(f"{public}/a/b.jpg", timeout=5)
    assert (read.status_code, read.content, read.headers["content-type"]) == (200, b"picture", "image/jpeg")
    refused = [
        requests.get(f"{private}/a/b.jpg", timeout=5),
        requests.get(public, timeout=5),
        requests.get(f"{public}?list-type=2", timeout=5),
        requests.get(server.url, timeout=5),
        requests.put(f"{public}/new", data=b"x", timeout=5),
        requests.delete(f"{public}/a/b.jpg", timeout=5),
    ]
    assert [answer.status_code for answer in refused] == [403] * len(refused)
    assert requests.get(f"{public}/..%2f{server.private_bucket}/a/b.jpg", timeout=5).status_code == 400
    signed = client.generate_presigned_url(
        "get_object", Params={"Bucket": server.private_bucket, "Key": "a/b.jpg"}, ExpiresIn=60
    )
    assert requests.get(signed, timeout=5).content == b"picture"


def test_object_storage_is_only_reachable_through_s3_with_credentials(
    tmp_path: Path, running: Callable[[Server], None]
) -> None:
    server = make_object_storage(tmp_path)
    running(server)
    client = s3_client(server)
    # Large objects are stored in several parts, which the S3 interface writes with internal tokens.
    content = os.urandom(9 * 1024 * 1024)
    client.put_object(Bucket=server.private_bucket, Key="a/b.jpg", Body=content)
    filer, master, volume, admin = (
        f"http://127.0.0.1:{server.ports[name]}" for name in ("filer", "master", "volume", "admin")
    )
    inside = f"{filer}/buckets/{server.private_bucket}"
    volumes = requests.get(f"{volume}/status", timeout=5).json()["Volumes"]
    stored = f"{volume}/{volumes[0]['Id']},01637037d6"
    refused = [
        *((method, f"{inside}/{path}") for path in ("", "a/b.jpg") for method in ("GET", "PUT", "DELETE")),
        ("GET", f"{filer}/etc/iam/identity.json"),
        ("POST", f"{filer}/new/"),
        *((method, stored) for method in ("GET", "PUT", "POST", "DELETE")),
        # The master would hand out tokens for the volume server.
        ("GET", f"{master}/dir/assign"),
        ("GET", f"{master}/dir/lookup?fileId={volumes[0]['Id']},01637037d6&read=yes"),
        ("GET", f"{master}/col/delete?collection={server.private_bucket}"),
        ("GET", f"{master}/vol/status"),
        ("GET", f"{admin}/"),
        ("GET", f"{admin}/object-store/buckets"),
    ]
    statuses = {
        f"{method} {url}": requests.request(method, url, data=b"x", timeout=5).status_code
        for method, url in refused
    }
    assert {call: status for call, status in statuses.items() if status not in (401, 404)} == {}
    signed = client.generate_presigned_url(
        "put_object", Params={"Bucket": server.private_bucket, "Key": "c"}, ExpiresIn=60
    )
    assert requests.put(signed, data=b"new", timeout=5).status_code == 200
    listed = client.list_objects_v2(Bucket=server.private_bucket)["Contents"]
    assert [item["Key"] for item in listed] == ["a/b.jpg", "c"]
    assert client.get_object(Bucket=server.private_bucket, Key="a/b.jpg")["Body"].read() == content


def test_object_storage_demands_a_client_certificate_for_grpc(
    tmp_path: Path, running: Callable[[Server], None]
) -> None:
    server = make_object_storage(tmp_path)
    running(server)
    numbers = [port for name, port in server.ports.items() if name.endswith("_grpc")]
    own = ssl.create_default_context(cafile=server.certificate)
    own.check_hostname = False
    own.set_alpn_protocols(["h2"])

    def settings_received(port: int) -> bool:
        """Return whether the server continues after the handshake, in which TLS 1.3 verifies the client last."""
        try:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
                own.wrap_socket(plain) as encrypted,
            ):
                encrypted.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
                return len(encrypted.recv(9)) == 9
        except OSError:
            return False

    assert len(numbers) == 4
    assert [
        port for port in (*numbers, server.ports["admin"] + PAIRED_DISTANCE) if settings_received(port)
    ] == []
    own.load_cert_chain(server.certificate)
    assert [port for port in numbers if not settings_received(port)] == []
    assert stat.S_IMODE(server.certificate.stat().st_mode) == 0o600


def test_object_storage_keeps_objects_when_ports_change(
    tmp_path: Path, running: Callable[[Server], None]
) -> None:
    first = make_object_storage(tmp_path)
    running(first)
    s3_client(first).put_object(Bucket=first.private_bucket, Key="kept", Body=b"7")
    process = first.process
    assert process is not None
    assert process.process_id is not None
    os.kill(process.process_id, signal.SIGKILL)
    assert wait_until(lambda: not process.running, timeout_seconds=WAIT_SECONDS)
    second = EmbeddedObjectStorage(
        first.directory,
        {name: port + 100 for name, port in first.ports.items()},
        access_key_id="key",
        secret_access_key=PASSWORD,
    )
    running(second)
    assert s3_client(second).get_object(Bucket=second.private_bucket, Key="kept")["Body"].read() == b"7"


def test_proxy_answers_and_stops(tmp_path: Path, running: Callable[[Server], None]) -> None:
    server = make_proxy(tmp_path)
    running(server)
    assert requests.get(server.url, timeout=5).text == "hello"
    assert server.stop()
    assert is_free(server.port)


PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.support.embedded_servers import MAKERS
server = MAKERS[sys.argv[1]](Path(sys.argv[3]))
server.start()
print(server.process.process_id, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("kind", "portable"), [*((kind, "0") for kind in MAKERS), ("postgres", "1"), ("valkey", "1")]
)
def test_server_ends_with_parent_process(tmp_path: Path, kind: str, portable: str) -> None:
    command = [sys.executable, "-c", PARENT, kind, str(PROJECT), str(tmp_path)]
    variables = os.environ | {"SANDBOX_PORTABLE": portable}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=variables) as parent:
        assert parent.stdout is not None
        server_id = int(parent.stdout.readline())
        assert psutil.pid_exists(server_id)
        parent.kill()
    assert wait_until(lambda: not psutil.pid_exists(server_id), timeout_seconds=WAIT_SECONDS)


@pytest.fixture(params=["linux", "portable"])
def _features(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with and without the features of Linux."""
    if request.param == "portable":
        monkeypatch.setattr(capabilities, "HAS_PARENT_DEATH_SIGNAL", False)
        monkeypatch.setattr(capabilities, "HAS_WAITID", False)


@pytest.mark.usefixtures("_features")
def test_process_is_stopped_with_all_child_processes(tmp_path: Path) -> None:
    # The shell ignores SIGTERM, and the child would outlive the shell.
    script = f"trap '' TERM; sleep 60 & echo $! > {tmp_path}/child; wait; wait"
    process = Process("stubborn", ["/bin/sh", "-c", script], log_path=tmp_path / "log", directory=tmp_path)
    process.launch()
    child_file = tmp_path / "child"
    assert wait_until(
        lambda: child_file.exists() and bool(child_file.read_text()), timeout_seconds=WAIT_SECONDS
    )
    child = psutil.Process(int(child_file.read_text()))
    assert not process.stop(timeout_seconds=0.2)
    assert wait_until(
        lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, timeout_seconds=WAIT_SECONDS
    )
    assert process.exit_status == -signal.SIGKILL


@pytest.mark.usefixtures("_features")
def test_missing_program_is_named(tmp_path: Path) -> None:
    process = Process("absent", ["/no/such/program"], log_path=tmp_path / "log", directory=tmp_path)
    process.launch()
    assert wait_until(lambda: not process.running, timeout_seconds=WAIT_SECONDS)
    assert process.exit_status == 126
    assert "/no/such/program cannot be started" in process.log_tail()
    assert "exit status 126" in str(process.failure("ended"))
