"""Deployment files name the same processes everywhere."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from marketplace.infra.waits.limits import web_limits
from marketplace.kernel import queues
from sandbox.servers.base import script_path

PROJECT = Path(__file__).parents[2]
KUBERNETES = PROJECT / "deploy" / "kubernetes"
PLACEHOLDERS = {
    "SITE_ADDRESS": "http://:8000",
    "API_UPSTREAM": "127.0.0.1:1",
    "WAITING_UPSTREAM": "127.0.0.1:2",
    "MEDIA_UPSTREAM": "127.0.0.1:3",
}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def containers() -> dict[str, dict[str, Any]]:
    found = {}
    for path in KUBERNETES.glob("*.yaml"):
        for document in documents(path):
            if document["kind"] in {"Deployment", "Job"}:
                [container] = document["spec"]["template"]["spec"]["containers"]
                found[document["metadata"]["name"]] = container
    return found


def test_every_queue_has_a_worker_everywhere() -> None:
    [compose] = documents(PROJECT / "compose.yaml")
    for queue in queues.NAMES:
        command = ["python", "-m", "tasks.worker", queue]
        assert compose["services"][f"worker-{queue}"]["command"] == command
        assert containers()[f"worker-{queue}"]["command"] == command


def test_kubernetes_applies_every_file_and_probes_web_processes() -> None:
    [kustomization] = documents(KUBERNETES / "kustomization.yaml")
    named = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == named
    for name in ("web", "waiting"):
        container = containers()[name]
        # A process joins once database and cache answer. A later outage of either takes no process out of service.
        assert container["startupProbe"]["httpGet"]["path"] == "/health/ready"
        assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
        assert container["readinessProbe"]["httpGet"]["path"] == "/health/live"


def test_liveness_probe_reaches_sync_workers_and_waits_longer_than_a_write() -> None:
    web = containers()["web"]
    assert {"name": "WORKER_CLASS", "value": "sync"} in web["env"]
    assert [port for port in web["ports"] if port["name"] == web["livenessProbe"]["httpGet"]["port"]]
    assert web["livenessProbe"]["timeoutSeconds"] > web_limits(1).write_seconds


def test_migrate_job_can_override_the_database_address() -> None:
    sources = [source["secretRef"] for source in containers()["migrate"]["envFrom"]]
    # The last source wins.
    assert sources == [{"name": "marketplace"}, {"name": "marketplace-migrate", "optional": True}]


def test_no_container_may_gain_privileges() -> None:
    assert len(containers()) == 5 + len(queues.NAMES)
    for container in containers().values():
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"]["drop"] == ["ALL"]


def test_deployment_files_contain_no_secret_values() -> None:
    for path in (PROJECT / "compose.yaml", *KUBERNETES.glob("*.yaml")):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"(SECRET|PASSWORD|_KEY|TOKEN)\w*: +(?!\$\{)\S", line), f"{path}: {line}"


def test_caddyfile_is_valid_with_the_agreed_placeholders(tmp_path: Path) -> None:
    caddyfile = PROJECT / "deploy" / "Caddyfile"
    used = set(re.findall(r"\{\$(\w+)\}", caddyfile.read_text(encoding="utf-8")))
    assert used == set(PLACEHOLDERS)  # other placeholders have defaults
    done = subprocess.run(
        [script_path("caddy"), "validate", "--config", caddyfile, "--adapter", "caddyfile"],
        env=os.environ | PLACEHOLDERS | {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["run", "test", "check", "demo", "bench", "reset"])
def test_make_without_target_lists_targets(name: str) -> None:
    listed = subprocess.run(["make"], cwd=PROJECT, capture_output=True, text=True, timeout=30, check=True)
    assert re.search(rf"^  make {name} +\S", listed.stdout, re.MULTILINE)
