"""Loading rows by COPY; rows whose key is taken are left as they are."""

import io
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy.orm import Session

from marketplace.infra.sessions import driver_cursor

# Is told how many more steps of a stage are done.
ProgressCallback = Callable[[int], None]

_BATCH_ROWS = 5_000
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"'})


def copy_rows(
    session: Session,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    progress: ProgressCallback | None = None,
) -> int:
    """Add rows to a table by COPY, in batches.

    :param table: the table's name
    :param columns: which columns the rows give; the others take their defaults
    :param rows: values in the columns' order
    :param progress: is told how many rows of each batch were read
    :return: how many rows were new
    """
    listed = ", ".join(columns)
    staging = f"seed_{table}"
    added = 0
    remaining = iter(rows)
    # Names are this package's own constants; values travel by COPY alone.
    with driver_cursor(session) as cursor:
        cursor.execute(f"CREATE TEMP TABLE {staging} AS SELECT {listed} FROM {table} WITH NO DATA")
        while batch := list(islice(remaining, _BATCH_ROWS)):
            lines = "".join("\t".join(map(_format_copy_field, row)) + "\n" for row in batch)
            cursor.copy_expert(f"COPY {staging} ({listed}) FROM STDIN", io.StringIO(lines))
            cursor.execute(
                f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {staging} ON CONFLICT DO NOTHING"
            )
            added += cursor.rowcount
            cursor.execute(f"TRUNCATE {staging}")
            if progress:
                progress(len(batch))
        cursor.execute(f"DROP TABLE {staging}")
    return added


def _format_copy_field(value: Any) -> str:
    """Write a value in COPY's text format."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        value = "{" + ",".join(f'"{str(item).translate(_QUOTES)}"' for item in value) + "}"
    return str(value).translate(_ESCAPES)
