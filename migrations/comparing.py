"""Comparison of column defaults between models and database, for expressions that Alembic cannot compare."""

import re
from collections.abc import Iterable
from typing import Any

from alembic.operations.ops import AlterColumnOp, MigrationScript, ModifyTableOps, OpContainer
from sqlalchemy import DefaultClause

# PostgreSQL adds casts and parentheses to expressions.
_CAST = re.compile(r"::(character varying|timestamp with(out)? time zone|\w+(\[\])?)")
_NOISE = re.compile(r"[\s()]+")
# Alembic compares evaluated defaults. Volatile expressions have a different value on each evaluation.
_VOLATILE = re.compile(r"nextval|random|uuid", re.IGNORECASE)


def drop_equal_defaults(_context: Any, _revision: Any, scripts: Iterable[MigrationScript]) -> None:
    """Remove changes of defaults that differ only in notation.

    Alembic calls this function through ``process_revision_directives``. Alembic also accepts a custom comparison
    function, but fails with one on identity columns.

    :param scripts: the results of the autogeneration; changed in place
    """
    for script in scripts:
        if script.upgrade_ops is not None:
            _clean(script.upgrade_ops)
        if script.downgrade_ops is not None:
            _clean(script.downgrade_ops)


def _clean(container: OpContainer) -> None:
    for operation in container.ops:
        if isinstance(operation, OpContainer):
            _clean(operation)
        elif isinstance(operation, AlterColumnOp) and _equal(
            operation.existing_server_default, operation.modify_server_default
        ):
            operation.modify_server_default = False
    container.ops[:] = [operation for operation in container.ops if not _is_idle(operation)]


def _is_idle(operation: Any) -> bool:
    if isinstance(operation, ModifyTableOps):
        return not operation.ops
    return isinstance(operation, AlterColumnOp) and not operation.has_changes()


def _equal(one: Any, other: Any) -> bool:
    """Return whether both defaults are the same volatile expression."""
    texts = [default_text(default) for default in (one, other)]
    if not all(text and _VOLATILE.search(text) for text in texts):
        return False
    return _bare(texts[0]) == _bare(texts[1])


def default_text(default: Any) -> str:
    """Return a column's default as SQL, or an empty text if the default is missing or not an expression."""
    if not isinstance(default, DefaultClause):
        return ""
    argument = default.arg
    return argument if isinstance(argument, str) else str(argument)


def _bare(expression: str) -> str:
    return _NOISE.sub("", _CAST.sub("", expression)).lower()
