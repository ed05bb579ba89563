"""Environment files: written variables are read back unchanged by the parser and by a shell."""

import subprocess
from pathlib import Path

from hypothesis import given, strategies as st

from marketplace.kernel.env_file import format_variables, parse_variables

AWKWARD = {
    "GATEWAY_WEBHOOK_ADDRESSES": "10.0.0.1, 10.0.0.2",
    "DATABASE_URL": "postgresql://m:p@h:5432/d?a=b&c=d",
    "SMTP_URL": 'smtp://user:it\'s "$HOME" `id` \\n;#%@h:587',
    "EMPTY": "",
    "LOG_LEVEL": "INFO",
}
_values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), max_size=40)


def test_shell_reads_written_variables_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "stack.env"
    path.write_text(format_variables(AWKWARD), encoding="utf-8")

    names = " ".join(f'"${name}"' for name in AWKWARD)
    done = subprocess.run(
        ["/bin/sh", "-euc", f". {path}; printf '%s\\n' {names}"],
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
        env={"HOME": "/never"},
    )

    assert done.stdout.splitlines() == list(AWKWARD.values())
    assert done.stderr == ""


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{0,9}", fullmatch=True), _values))
def test_written_variables_are_read_back_unchanged(variables: dict[str, str]) -> None:
    assert parse_variables(format_variables(variables)) == variables


def test_plain_value_is_written_without_quotes() -> None:
    assert (
        format_variables({"PUBLIC_BASE_URL": "http://127.0.0.1:8000"})
        == "PUBLIC_BASE_URL=http://127.0.0.1:8000\n"
    )


def test_unquoted_value_is_read_literally() -> None:
    text = "A=10.0.0.1, 10.0.0.2\nB=it's\n# C=1\n\nno variable\n D=a=b \n"

    assert parse_variables(text) == {"A": "10.0.0.1, 10.0.0.2", "B": "it's", "D": "a=b"}
