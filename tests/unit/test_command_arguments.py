"""Command-line arguments that are not valid UTF-8 are refused before any command runs."""

import os

import pytest
from click.testing import CliRunner

from commands.main import main


@pytest.mark.parametrize(
    "arguments",
    [
        ("webhooks", "list", "--type"),
        ("webhooks", "replay", "--error-like"),
        ("alerts", "resolve", "01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10", "--note"),
        ("token",),
        (),
    ],
    ids=" ".join,
)
def test_invalid_utf_8_argument_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*arguments, os.fsdecode(b"bad \xff")])

    assert done.exit_code == 2
    assert "'bad \ufffd' is not valid UTF-8." in done.output


def test_replacement_character_is_accepted_as_text() -> None:
    done = CliRunner().invoke(main, ["bad \ufffd"])

    assert done.exit_code == 2
    assert "There is no command bad \ufffd." in done.output
