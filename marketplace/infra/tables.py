"""Statements of tables that people sort: one for each way, so that each is planned once.

What a table is sorted by has the name that the field has in the answer: each table says which column that is.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import text

from marketplace.infra.db import Row, Statement

SortedStatements = dict[tuple[str, bool], Statement[Row]]


def build_sorted_statements(
    columns: str,
    from_clause: str,
    sort_columns: Mapping[str, str],
    *,
    tie_breaker: str,
    nullable: Collection[str] = (),
) -> SortedStatements:
    """Make one statement for each way to sort a table.

    :param columns: ``SELECT ...``
    :param from_clause: ``FROM ... WHERE ...``
    :param sort_columns: what is sorted by, each by the name of its field in the answer
    :param tie_breaker: what settles the order of those alike
    :param nullable: fields that may have no value: those come last either way
    :return: by field and whether it descends; each takes ``most`` and ``offset``
    """
    return {
        (field, descending): Statement(
            text(
                f"{columns} {from_clause} ORDER BY {column} {direction}"
                f"{' NULLS LAST' if field in nullable else ''}, {tie_breaker} {direction} LIMIT :most OFFSET :offset"
            )
        )
        for field, column in sort_columns.items()
        for descending, direction in ((True, "DESC"), (False, "ASC"))
    }
