"""Embedded stack: start, sharing of a machine, recovery from failures, and clean stop."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import psutil
import psycopg2
import pytest
import redis
import requests
from botocore.exceptions import EndpointConnectionError

from marketplace.kernel import queues
from sandbox.lock import is_locked, lock_holders
from sandbox.ports import is_free
from sandbox.process import wait_until
from tests.support.embedded_stack import START_SECONDS, STOP_SECONDS, Stack, environment, run_stack
from tests.support.generated_clients import (
    INTERPRETER,
    check_types,
    purchase_arguments,
    run,
    save_document,
    without_casts,
)
from tests.support.installation import PROJECT, marketplace, query
from tests.support.ports import free_port
from tests.support.sample_images import photo
from tests.support.servers import Addresses, create_database, drop_database

DEMO_SECONDS = 240  # includes a first start, possibly beside other tests


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The stack of this module. Tests share the data and start the stack when stopped."""
    # A unix socket in a directory with such a long name would be refused (104 bytes on macOS, 108 on Linux).
    made = Stack(tmp_path_factory.mktemp("stack") / ("data" + "-of-a-long-name" * 8), free_port("stack"))
    yield made
    if made.process is not None and made.process.poll() is None:
        assert made.stop() == 0
        assert made.text().rstrip().endswith("Stopped.")
        stopping = made.text().rpartition("Stopping")[2].splitlines()
        assert [line for line in stopping if "killed" in line] == []
        assert all(is_free(port) for port in (made.port, *made.ports().values()))
        assert run_stack(made, "status").returncode == 3


@pytest.fixture
def running(stack: Stack) -> Stack:
    if stack.process is None or stack.process.poll() is not None:
        stack.start()
    return stack


@contextmanager
def database(stack: Stack) -> Iterator[Any]:
    connection = psycopg2.connect(stack.variables()["DATABASE_URL"], connect_timeout=5)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def test_started_stack_is_ready_and_prints_next_steps(running: Stack) -> None:
    text = running.text()
    assert wait_until(running.is_ready, timeout_seconds=START_SECONDS)
    for expected in (f"{running.base}/docs", f"{running.base}/admin", "/gateway", "/identity", "campus-rep"):
        assert expected in text
    assert "marketplace token buyer" in text
    answered = run_stack(running, "status")
    assert (answered.returncode, "is ready" in answered.stdout) == (0, True)
    expected_services = {
        "web",
        "waiting",
        "metrics",
        "proxy",
        "providers",
        *(f"worker-{queue}" for queue in queues.NAMES),
    }
    assert expected_services <= set(running.services())


def test_secret_files_are_readable_only_by_the_owner(running: Stack) -> None:
    for name in ("stack.env", "secrets.json"):
        assert stat.S_IMODE((running.directory / name).stat().st_mode) == 0o600
    for name in ("logs", "objects", "valkey", "postgresql"):
        assert stat.S_IMODE((running.directory / name).stat().st_mode) == 0o700


def test_all_services_listen_on_loopback_only(running: Stack) -> None:
    processes = {*running.services().values(), *lock_holders(running.lock)}

    def listening() -> set[Any]:
        return {
            connection.laddr
            for process in processes
            for connection in psutil.Process(process).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }

    # A restarted object storage opens some of its ports after it is ready.
    assert wait_until(lambda: len(listening()) > 10, timeout_seconds=STOP_SECONDS)
    assert {address.ip for address in listening()} == {"127.0.0.1"}


def kill_and_wait(stack: Stack, *names: str) -> None:
    """Kill processes and wait until the stack has restarted each and is ready again."""
    before = stack.services()
    for name in names:
        os.kill(before[name], signal.SIGKILL)

    def recovered() -> bool:
        now = stack.services()
        return all(now.get(name, before[name]) != before[name] for name in names) and stack.is_ready()

    assert wait_until(recovered, timeout_seconds=START_SECONDS), stack.text()
    for name in names:
        assert re.search(rf"{name} +ended \(killed by SIGKILL\); restart 1 of 5", stack.text()), stack.text()


def check_signals(stack: Stack) -> None:
    done = marketplace("periodic", "run", "check-signals", environment=stack.variables())
    assert done.returncode == 0, done.stderr


def test_stalled_queue_gets_a_second_worker(running: Stack) -> None:
    """The first worker hangs. The task runs every 30 seconds too."""
    frozen, second = running.services()["worker-ai-moderation"], "worker-ai-moderation-2"
    os.kill(frozen, signal.SIGSTOP)
    try:
        with database(running) as cursor:
            cursor.execute(
                "INSERT INTO outbox_events (queue, topic, payload, due_at, created_at)"
                " SELECT 'ai-moderation', 'product.screen', %s, at, at"
                " FROM (SELECT now() - interval '3 minutes' AS at) earlier RETURNING id",
                (json.dumps({"productId": str(uuid4())}),),
            )
            [row_id] = cursor.fetchone()
            check_signals(running)
            assert wait_until(lambda: second in running.services(), timeout_seconds=60), running.text()

            def is_done() -> bool:
                cursor.execute("SELECT done_at IS NOT NULL FROM outbox_events WHERE id = %s", (row_id,))
                return bool(cursor.fetchone()[0])

            assert wait_until(is_done, timeout_seconds=START_SECONDS), running.text()
            check_signals(running)
            assert wait_until(lambda: second not in running.services(), timeout_seconds=60), running.text()
            cursor.execute("SELECT subject, resolution FROM alerts WHERE identifier = 'QUEUE_STALL'")
            assert cursor.fetchall() == [("queue:ai-moderation", "rule")]
    finally:
        os.kill(frozen, signal.SIGCONT)


def upload(stack: Stack, content: bytes) -> requests.Response:
    issuer = stack.variables()["IDENTITY_ISSUER"]
    issued = requests.post(f"{issuer}/sandbox/token", json={"persona": "vendor"}, timeout=5).json()
    return requests.post(
        f"{stack.base}/api/v1/products/images",
        files={"file": ("picture.jpg", content)},
        headers={"Authorization": f"Bearer {issued['access_token']}"},
        timeout=STOP_SECONDS,
    )


def test_image_is_uploaded_and_served_through_the_proxy(running: Stack) -> None:
    picture = photo(1800, 1200)
    answers: list[requests.Response] = []

    def is_stored() -> bool:
        answers.append(upload(running, picture + bytes(5 * 1024 * 1024 - len(picture))))
        return answers[-1].status_code == 201

    # Another test may have killed a server just before.
    assert wait_until(is_stored, timeout_seconds=STOP_SECONDS), answers[-1].text
    for size in answers[-1].json()["data"]["sizes"]:
        assert size["url"].startswith(f"{running.base}/media/products/")
        read = requests.get(size["url"], timeout=5)
        assert (read.status_code, read.headers["content-type"]) == (200, size["contentType"])
        assert read.headers["cache-control"] == "public, max-age=31536000, immutable"
    for length in (5 * 1024 * 1024 + 1, 60 * 1024 * 1024):
        content = picture + bytes(length - len(picture))
        assert upload(running, content).json()["code"] == "PAYLOAD_TOO_LARGE"


def test_proxy_serves_public_images_only(running: Stack) -> None:
    given = running.variables()
    client: Any = boto3.client(
        "s3",
        endpoint_url=given["S3_ENDPOINT_URL"],
        aws_access_key_id=given["S3_ACCESS_KEY_ID"],
        aws_secret_access_key=given["S3_SECRET_ACCESS_KEY"],
        region_name=given["S3_REGION"],
    )

    def is_storage_up() -> bool:
        try:
            return bool(client.head_bucket(Bucket=given["S3_PUBLIC_BUCKET"]))
        except EndpointConnectionError:
            return False

    # Another test may have killed the storage just before.
    assert wait_until(is_storage_up, timeout_seconds=START_SECONDS), running.text()
    for bucket, content in ((given["S3_PUBLIC_BUCKET"], b"png"), (given["S3_PRIVATE_BUCKET"], b"private")):
        client.put_object(Bucket=bucket, Key="tests/picture.png", Body=content, ContentType="image/png")
    media = f"{running.base}/media"
    read = requests.get(f"{media}/tests/picture.png", timeout=5)
    assert (read.status_code, read.content, read.headers["content-type"]) == (200, b"png", "image/png")
    assert read.headers["x-content-type-options"] == "nosniff"
    assert not [name for name in read.headers if name.lower().startswith(("x-amz", "seaweed", "server"))]
    assert requests.get(f"{media}/?list-type=2", timeout=5).status_code == 404
    for way in ("..%2f", "%2e%2e/", "%2e%2e%2f", "x/..%2f..%2f"):
        private = requests.get(f"{media}/{way}{given['S3_PRIVATE_BUCKET']}/tests/picture.png", timeout=5)
        assert private.content != b"private"
    for method in ("PUT", "POST", "DELETE"):
        assert requests.request(method, f"{media}/tests/picture.png", timeout=5).status_code == 405


def test_second_stack_on_same_directory_or_port_is_refused(running: Stack, tmp_path: Path) -> None:
    assert running.process is not None
    same_directory = run_stack(running, "up", PORT=str(free_port("stack")))
    assert same_directory.returncode == 1
    assert f"(process {running.process.pid})" in same_directory.stderr
    same_port = run_stack(running, "up", DATA_DIR=str(tmp_path / "other"))
    assert same_port.returncode == 1
    assert f"Port {running.port} is taken" in same_port.stderr
    assert f"PORT={running.port + 1} make run" in same_port.stderr
    refused = run_stack(running, "reset")
    assert (refused.returncode, "Stop it first" in refused.stderr) == (1, True)
    assert running.is_ready()


def test_killed_service_is_restarted(running: Stack) -> None:
    kill_and_wait(running, "worker-webhooks", "web", "proxy")


@pytest.mark.parametrize("name", ["postgresql", "valkey", "object-storage"])
def test_killed_server_is_restarted_and_the_service_recovers(running: Stack, name: str) -> None:
    others = {other: number for other, number in running.services().items() if other != name}
    kill_and_wait(running, name)
    now = running.services()
    assert {other: now[other] for other in others} == others
    with database(running) as cursor:
        cursor.execute("SELECT count(*) >= 300 FROM products")
        assert cursor.fetchone() == (True,)
    with redis.Redis.from_url(running.variables()["REDIS_URL"]) as cache:
        assert cache.ping()
    # Each process finds its broken connections with the first request, which is answered 503.
    picture = photo(320, 240)
    assert wait_until(lambda: upload(running, picture).status_code == 201, timeout_seconds=STOP_SECONDS)


def test_killed_stack_starts_again_with_the_same_data(running: Stack) -> None:
    with database(running) as cursor:
        cursor.execute("CREATE TABLE test_kept (id int)")
        cursor.execute("INSERT INTO test_kept VALUES (7)")
        cursor.execute("SELECT count(*) FROM products")
        products = cursor.fetchone()[0]
    assert products >= 300
    ports = running.ports()
    secrets = (running.directory / "secrets.json").read_text(encoding="utf-8")
    assert running.process is not None
    children = list(running.services().values())
    running.process.kill()
    running.process.wait(STOP_SECONDS)
    # Restart at once, while child processes are still ending. The start waits for the end.
    running.start()
    assert "The last run was killed" in running.text()
    assert "Killing the remaining processes" not in running.text()
    assert running.is_ready()
    assert not set(children) & {*running.services().values(), *lock_holders(running.lock)}
    assert running.ports() == ports
    assert (running.directory / "secrets.json").read_text(encoding="utf-8") == secrets
    with database(running) as cursor:
        cursor.execute("SELECT count(*) FROM products")
        assert cursor.fetchone()[0] == products
        cursor.execute("DROP TABLE test_kept")  # fails if the table does not exist


def test_client_of_openapi_python_client_plays_a_purchase(running: Stack, tmp_path: Path) -> None:
    """The stack is in use already. Other generators need more packages: see ``test_generated_clients.py``."""
    assert wait_until(running.is_ready, timeout_seconds=START_SECONDS)
    package = "campus_marketplace_client"
    run(
        tmp_path,
        *("openapi-python-client", "generate", "--path", save_document(running, tmp_path), "--meta", "none"),
        *("--output-path", package, "--fail-on-warning"),
    )
    purchase = without_casts("purchase_openapi_python_client.py", tmp_path)

    check_types(purchase, INTERPRETER)
    said = run(tmp_path, INTERPRETER, purchase, *purchase_arguments(running))

    assert said.startswith("bought ")


def test_demo_plays_the_purchase_on_given_servers_beside_a_running_stack(
    running: Stack, addresses: Addresses, tmp_path: Path
) -> None:
    """The demo starts a separate stack without the given servers, and stops that stack."""
    other = Stack(tmp_path / "other", free_port("stack"))
    variables = running.variables()
    storage = {
        name: variables[name] for name in ("S3_ENDPOINT_URL", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY")
    }
    refused = run_stack(other, "up", S3_ENDPOINT_URL=variables["S3_ENDPOINT_URL"])
    assert (refused.returncode, "S3_SECRET_ACCESS_KEY must be set" in refused.stderr) == (1, True)
    name = f"guest_{other.port}"
    given = {
        "DATABASE_URL": create_database(addresses, name, template="template1"),
        "REDIS_URL": f"{variables['REDIS_URL'][:-1]}1",
    }
    played = subprocess.run(
        [sys.executable, "-m", "sandbox.demo"],
        cwd=PROJECT,
        env=environment(other, **storage, **given),
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert played.returncode == 0, f"{played.stdout}\n{played.stderr}"
    assert played.stderr == ""
    assert "\x1b" not in played.stdout  # plain text in a pipe
    steps = [int(number) for number in re.findall(r"^(\d+)\. ", played.stdout, re.MULTILINE)]
    assert steps == list(range(1, 34))
    for expected in (
        "POST /api/orders ",
        '"status": "paid_escrow", "escrowStatus": "held"',
        '"status": "delivered", "escrowStatus": "released"',
        "ledger debit escrow",
    ):
        assert expected in played.stdout
    assert re.search(
        r"^Order CM-\d+: the buyer paid NGN [\d,.]+ The store is owed NGN", played.stdout, re.MULTILINE
    )
    assert not is_locked(other.lock)  # the demo stopped the stack
    assert query(given["DATABASE_URL"], "SELECT count(*) >= 300 FROM products") == [(True,)]
    drop_database(addresses, name)

    other_variables = other.variables()
    assert variables["GATEWAY_URL"] != other_variables["GATEWAY_URL"]
    assert {"providers.log", "web.log"} <= {path.name for path in (other.directory / "logs").iterdir()}
    assert not any((other.directory / name).exists() for name in ("postgresql", "valkey", "objects"))
    assert run_stack(other, "reset").returncode == 0
    assert not other.directory.exists()
    assert running.is_ready()


@pytest.mark.parametrize("where", ["/proc/self/nowhere", "file/below"])
def test_unwritable_data_directory_is_named(stack: Stack, tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("not a directory", encoding="utf-8")
    directory = tmp_path / where
    answered = run_stack(stack, "up", DATA_DIR=str(directory), PORT=str(free_port("stack")))
    assert answered.returncode == 1
    assert f"{directory} is not writable" in answered.stderr


def test_failed_start_stops_servers_and_shows_the_cause(stack: Stack, tmp_path: Path) -> None:
    other = Stack(tmp_path / "failing", free_port("stack"))
    answered = run_stack(other, "up", CURSOR_KEY="too short")
    assert answered.returncode == 1
    assert "CURSOR_KEY must have at least 32 characters" in answered.stderr
    assert not is_locked(other.lock)
    assert "ready in" not in answered.stdout.lower()


def test_database_from_before_the_baseline_is_refused_in_a_line(addresses: Addresses, tmp_path: Path) -> None:
    other = Stack(tmp_path / "old", free_port("stack"))
    url = create_database(addresses, f"old_{other.port}")
    query(url, "UPDATE alembic_version SET version_num = '0029'")
    answered = run_stack(other, "up", DATABASE_URL=url)
    drop_database(addresses, f"old_{other.port}")
    assert answered.returncode == 1
    [line] = answered.stderr.strip().splitlines()
    assert "revision 0029" in line
    assert "make reset" in line
    assert not is_locked(other.lock)


def test_reset_keeps_a_directory_without_a_stack(stack: Stack, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    answered = run_stack(stack, "reset", DATA_DIR=str(precious))
    assert answered.returncode == 1
    assert (precious / "file").exists()
