"""The application's gunicorn settings for the floors, so that floors and figures run alike."""

import runpy
from pathlib import Path
from typing import Any

globals().update(runpy.run_path(str(Path(__file__).parents[1] / "gunicorn.conf.py")))


def post_fork(_server: Any, _worker: Any) -> None:
    """Do nothing. The application's hook would load the application."""
