"""Files with secrets."""

from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, atomically.

    A concurrent reader sees either the old or the new text.
    """
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
