"""Memory of web processes: no large libraries that requests seldom need, and pages shared with the master."""

import gc
import os
import runpy
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SELDOM_NEEDED = {
    *("PIL", "boto3", "botocore", "requests", "charset_normalizer"),
    *("sentry_sdk", "httpcore", "fpdf", "fontTools", "alembic"),
}


def modules_loaded_by(program: str) -> set[str]:
    """Run a program in a new process, and return the libraries of ``SELDOM_NEEDED`` that the process loads."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print(*({SELDOM_NEEDED!r} & sys.modules.keys()))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


def test_web_processes_load_no_large_library_that_requests_seldom_need() -> None:
    """Images are decoded in a separate process. The other libraries are loaded at first use, or by commands."""
    program = "import blueprints.areas, blueprints.http.application, marketplace.services, tasks.all_tasks"
    assert modules_loaded_by(program) == set()


def test_error_tracker_does_not_load_the_storage_client() -> None:
    program = (
        "from types import SimpleNamespace; from marketplace.infra.logs import configure_error_tracking;"
        "configure_error_tracking(SimpleNamespace("
        "sentry_dsn='https://key@tracker.invalid/1', build_revision='1', environment='test'))"
    )
    loaded = modules_loaded_by(program)
    assert "sentry_sdk" in loaded
    assert "boto3" not in loaded


def test_collections_in_workers_leave_the_objects_of_the_master_alone() -> None:
    configuration = runpy.run_path(str(PROJECT / "gunicorn.conf.py"))
    try:
        configuration["when_ready"](None)
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()


def test_worker_measures_the_clock_before_the_first_request(environment: dict[str, str]) -> None:
    """A liveness probe must not wait for a database that hangs."""
    program = (
        "import runpy; from types import SimpleNamespace; from wsgi import services;"
        "runpy.run_path('gunicorn.conf.py')['post_worker_init'](SimpleNamespace(alive=True));"
        "print(services.clock._was_measured)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=PROJECT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "True"
