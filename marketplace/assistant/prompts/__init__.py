"""Instructions and tool schemas for the language model, a file for each version. A changed text gets a new version."""

from functools import cache
from importlib.resources import files

CONVERSATION = "conversation_v1"
SESSION_TITLE = "session_title_v1"
SUPPORT_REPLY = "support_reply_v1"
THREAD_SUMMARY = "thread_summary_v1"
TOOLS = "tools_v1"


@cache
def read_prompt(name: str) -> str:
    """Read a prompt from its file."""
    return read_file(f"{name}.txt").strip()


def read_file(name: str) -> str:
    """Read a file of this folder."""
    return (files(__package__) / name).read_text("utf-8")
