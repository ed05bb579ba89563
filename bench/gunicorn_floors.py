"""The application's own gunicorn settings, for the floors: what a figure is compared with runs just like it."""

import runpy
from pathlib import Path
from typing import Any

globals().update(runpy.run_path(str(Path(__file__).parents[1] / "gunicorn.conf.py")))


def post_fork(_server: Any, _worker: Any) -> None:
    """Do nothing: the application's hook would load the application."""
