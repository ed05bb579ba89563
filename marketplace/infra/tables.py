"""Statements of tables that people sort: one for each way, so that each is planned once."""

from sqlalchemy import text

from marketplace.infra.db import Statement


def sorted_pages(
    columns: str, source: str, alias: str, sorts: tuple[str, ...]
) -> dict[tuple[str, bool], Statement]:
    """This function will make one statement for each way to sort a table; what has no value comes last either way.

    :param columns: ``SELECT ...``
    :param source: ``FROM ... WHERE ...``
    :param alias: of the table whose columns are sorted by, and whose id settles the order
    :param sorts: columns; ``amount`` stands for ``amount_minor``
    :return: by column and whether it descends; each takes ``most`` and ``offset``
    """
    return {
        (sort, descending): Statement(
            text(
                f"{columns} {source} ORDER BY {alias}.{sort + '_minor' if sort == 'amount' else sort}"
                f" {'DESC' if descending else 'ASC'} NULLS LAST, {alias}.id {'DESC' if descending else 'ASC'}"
                " LIMIT :most OFFSET :offset"
            )
        )
        for sort in sorts
        for descending in (True, False)
    }
