"""Memory of web processes: no large libraries that requests seldom need, and pages shared with the master."""

import gc
import runpy
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SELDOM_NEEDED = {
    *("PIL", "boto3", "botocore", "requests", "charset_normalizer"),
    *("sentry_sdk", "httpcore", "fpdf", "fontTools", "alembic"),
}


def test_web_processes_load_no_large_library_that_requests_seldom_need() -> None:
    """Images are decoded in a separate process. The other libraries are loaded at first use, or by commands."""
    check = (
        "import sys, blueprints.areas, blueprints.http.application, marketplace.services, tasks.all_tasks;"
        f"sys.exit(', '.join(sorted({SELDOM_NEEDED!r} & sys.modules.keys())) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_collections_in_workers_leave_the_objects_of_the_master_alone() -> None:
    configuration = runpy.run_path(str(PROJECT / "gunicorn.conf.py"))
    try:
        configuration["when_ready"](None)
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
