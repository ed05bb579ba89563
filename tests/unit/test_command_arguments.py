"""What is given to commands on the command line: bytes that are no text are refused before any command is run."""

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
def test_bytes_that_are_not_utf_8_are_an_error_of_usage(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*arguments, os.fsdecode(b"bad \xff")])

    assert done.exit_code == 2
    assert "'bad \ufffd' is not valid UTF-8." in done.output


def test_a_sign_that_stands_for_what_can_not_be_read_is_text() -> None:
    done = CliRunner().invoke(main, ["bad \ufffd"])

    assert done.exit_code == 2
    assert "There is no command bad \ufffd." in done.output
