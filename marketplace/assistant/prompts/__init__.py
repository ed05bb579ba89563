"""The instructions for the language model, a file for each version. A changed text gets a new version."""

from functools import cache
from importlib.resources import files

SESSION_TITLE = "session_title_v1"
SUPPORT_REPLY = "support_reply_v1"


@cache
def read_prompt(name: str) -> str:
    """Read a prompt from its file."""
    return (files(__package__) / f"{name}.txt").read_text("utf-8").strip()
