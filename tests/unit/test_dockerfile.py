"""Dockerfile: parsed and replayed in a directory, because tests have no container engine."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

import pytest

from sandbox.process import Process, wait_until
from sandbox.servers import http_status
from tests.support.encryption_keys import KEY_VARIABLES
from tests.support.ports import free_port

PROJECT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
LIMIT_SECONDS = 240
# The image copies the complete application, so early commits skip these tests.
complete = pytest.mark.skipif(
    not all((PROJECT / name).exists() for name in ("wsgi.py", "tasks/worker.py", "commands/main.py")),
    reason="the application is not complete yet",
)


@dataclass(frozen=True)
class Instruction:
    """A Dockerfile instruction: the keyword, and the rest joined to a single line."""

    word: str
    rest: str


def read_stages() -> list[list[Instruction]]:
    """Parse the Dockerfile into a list of instructions for each stage."""
    text = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages: list[list[Instruction]] = []
    for line in joined.splitlines():
        word, rest = line.split(None, 1)
        if word == "FROM":
            stages.append([])
            defaults: dict[str, str] = {}
        if word == "ARG" and "=" in rest:
            name, _, defaults[name] = rest.partition("=")
        rest = Template(rest).safe_substitute(defaults)
        stages[-1].append(Instruction(word, rest))
    return stages


def instructions(stage: list[Instruction], word: str) -> list[str]:
    return [instruction.rest for instruction in stage if instruction.word == word]


def copies(stage: list[Instruction]) -> list[tuple[list[str], str]]:
    """List the sources and the target of each COPY from the source tree."""
    words = [shlex.split(rest) for rest in instructions(stage, "COPY")]
    return [(sources, target) for *sources, target in words if not sources[0].startswith("--from")]


def pip_installs(stage: list[Instruction]) -> list[list[str]]:
    """List the arguments of each `pip install` of a stage."""
    commands = [shlex.split(rest) for rest in instructions(stage, "RUN")]
    return [command[2:] for command in commands if command[:2] == ["pip", "install"]]


def test_dockerfile_has_two_slim_stages_and_final_user_is_not_root() -> None:
    build, final = read_stages()
    assert instructions(build, "FROM") == ["python:3.11-slim AS build"]
    assert instructions(final, "FROM") == ["python:3.11-slim"]
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", instructions(final, "USER")[-1])
    assert pip_installs(final) == []


def test_image_starts_gunicorn_and_has_a_health_check() -> None:
    final = read_stages()[-1]
    assert instructions(final, "CMD") == ['["gunicorn", "-c", "gunicorn.conf.py", "wsgi:app"]']
    [health] = instructions(final, "HEALTHCHECK")
    assert "/health/live" in health
    assert {option.split("=")[0] for option in health.split() if option.startswith("--")} == {
        "--interval",
        "--timeout",
        "--start-period",
        "--retries",
    }


def test_requirements_are_installed_by_hash_and_project_without_dependencies() -> None:
    assert pip_installs(read_stages()[0]) == [
        ["--require-hashes", "-r", "/build/requirements/production.txt"],
        ["--no-deps", "--no-build-isolation", "."],
    ]


def test_dockerfile_sets_no_secret() -> None:
    for stage in read_stages():
        for rest in instructions(stage, "ENV") + instructions(stage, "ARG"):
            assert not re.search(r"(SECRET|PASSWORD|TOKEN|_KEY|DSN|_URL)[A-Z_]*=", rest)


@complete
def test_copied_sources_exist_and_are_not_ignored() -> None:
    sources = [source for stage in read_stages() for names, _ in copies(stage) for source in names]
    ignore_lines = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line.removeprefix("!") for line in ignore_lines if line.startswith("!")}
    assert "*" in ignore_lines
    assert [source for source in sources if not (PROJECT / source).exists()] == []
    assert sorted(set(sources)) == sorted(let_through)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replay the copies and installs of the Dockerfile below a directory."""
    root = tmp_path_factory.mktemp("image")
    environment = root / "opt" / "venv"
    run([str(UV), "venv", "--quiet", "--python", sys.executable, str(environment)], root)
    for stage in read_stages():
        for sources, target in copies(stage):
            for source in sources:
                copy(source, root, target)
        for arguments in pip_installs(stage):
            placed = [str(root) + word if word.startswith("/build/") else word for word in arguments]
            command = [str(UV), "pip", "install", "--quiet", "--python", str(environment), *placed]
            run(command, root / "build")
    copy_bytecode(environment)
    return root


def copy_bytecode(environment: Path) -> None:
    """Copy the libraries' bytecode, which Python accepts for files of the same size and time."""
    below = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
    source, target = Path(sys.prefix) / below, environment / below
    for compiled in source.rglob("*.pyc"):
        copied = target / compiled.relative_to(source)
        if copied.parents[1].is_dir():
            copied.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, copied)


def copy(source: str, root: Path, target: str) -> None:
    """Copy like COPY: a directory's content to the target, a file to the target or into the target directory."""
    origin, destination = PROJECT / source, root / target.lstrip("/")
    if origin.is_dir():
        shutil.copytree(origin, destination, ignore=shutil.ignore_patterns("__pycache__"))
        return
    if target.endswith("/"):
        destination = destination / origin.name
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(origin, destination)


def run(command: list[str], directory: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def production_environment(root: Path, **more: str) -> dict[str, str]:
    """Return the variables of a production process. Imports do not need any of the named servers."""
    return {
        "PATH": f"{root / 'opt/venv/bin'}:{os.environ['PATH']}",
        "ENVIRONMENT": "production",
        "PUBLIC_BASE_URL": "https://api.example.com",
        "DATABASE_URL": "postgresql://marketplace@127.0.0.1:9/marketplace",
        "REDIS_URL": "redis://127.0.0.1:9/0",
        "S3_ACCESS_KEY_ID": "id",
        "S3_SECRET_ACCESS_KEY": "secret",
        "GATEWAY_URL": "https://gateway.example.com",
        "GATEWAY_SECRET_KEY": "sk_live_of_a_test",
        "SMS_URL": "https://sms.example.com",
        "SMS_API_KEY": "s" * 32,
        "IDENTITY_ISSUER": "https://identity.example.com",
        "IDENTITY_JWKS_URL": "https://identity.example.com/jwks.json",
        "DELIVERY_PIN_KEY": "p" * 32,
        "CURSOR_KEY": "c" * 32,
        **KEY_VARIABLES,
        "FUNCTIONS_KEY": "f" * 32,
        "MESSAGING_APP_SECRET": "m" * 32,
        **more,
    }


@complete
def test_commands_of_all_processes_are_in_the_image(image: Path) -> None:
    directory, environment = image / "srv/marketplace", production_environment(image)
    assert {path.name for path in directory.iterdir()} - {"__pycache__"} == {"gunicorn.conf.py"}
    # gunicorn imports the worker class of the streaming processes by name.
    imports = "import gunicorn.workers.ggevent, tasks.worker, wsgi; print(wsgi.__file__, wsgi.app)"
    assert str(image / "opt/venv/lib") in run(["python", "-c", imports], directory, environment)
    assert "db" in run(["marketplace", "--help"], directory, environment)


@complete
def test_all_files_of_the_packages_are_in_the_image(image: Path) -> None:
    # Migrations, templates and scripts are package data, which an install easily omits.
    [installed] = (image / "opt/venv/lib").glob("python*/site-packages")
    files = [
        path.relative_to(PROJECT)
        for package in ("blueprints", "commands", "marketplace", "migrations", "tasks")
        for path in (PROJECT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert len(files) > 50
    assert [str(path) for path in files if not (installed / path).exists()] == []


@complete
def test_default_command_serves_and_health_check_passes(image: Path, tmp_path: Path) -> None:
    port = free_port("image")
    environment = production_environment(image, WEB_BIND=f"127.0.0.1:{port}")
    final = read_stages()[-1]
    [command] = (exec_form(rest) for rest in instructions(final, "CMD"))
    [health] = (exec_form(rest.split("CMD", 1)[1]) for rest in instructions(final, "HEALTHCHECK"))
    process = Process(
        "gunicorn",
        [str(image / "opt/venv/bin" / command[0]), *command[1:]],
        log_path=tmp_path / "log",
        directory=image / "srv/marketplace",
        environment=environment,
    )
    process.launch()
    try:
        answered = wait_until(
            lambda: not process.running or http_status(port, "/health/live") == 200, timeout_seconds=30
        )
        assert answered, process.log_tail(40)
        assert process.running, process.log_tail(40)
        run([word.replace(":8000", f":{port}") for word in health], tmp_path, environment)
    finally:
        assert process.stop(timeout_seconds=30)


def exec_form(text: str) -> list[str]:
    return [str(word) for word in re.findall(r'"([^"]*)"', text)]
