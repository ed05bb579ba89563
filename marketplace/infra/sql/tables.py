"""Sortable tables with a compiled statement per sort order.

A sort key has the name of the field in the response. Each table maps sort keys to columns.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.paging import TablePage, TableRequest


class SortedTable:
    """A table that clients filter, sort and page by number."""

    def __init__(
        self,
        columns: str,
        from_clause: str,
        sort_columns: Mapping[str, str],
        *,
        row: type[Any],
        tie_breaker: str,
        nullable: Collection[str] = (),
        count_from: str | None = None,
    ) -> None:
        """Compile a statement for each sort order, and a statement that counts rows.

        :param columns: ``SELECT ...``
        :param from_clause: ``FROM ... WHERE ...``
        :param sort_columns: the column of each sort key
        :param row: the dataclass of a row
        :param tie_breaker: the column that orders rows with equal sort keys
        :param nullable: sort keys that can be NULL; such rows come last in both directions
        :param count_from: a cheaper ``FROM ... WHERE ...`` with the same number of rows
        """
        self.pages: dict[tuple[str, bool], Statement[Any]] = {
            (key, descending): Statement(
                text(
                    f"{columns} {from_clause} ORDER BY {column} {direction}"
                    f"{' NULLS LAST' if key in nullable else ''}, {tie_breaker} {direction} LIMIT :limit OFFSET :offset"
                ),
                row=row,
            )
            for key, column in sort_columns.items()
            for descending, direction in ((True, "DESC"), (False, "ASC"))
        }
        self.count = Statement(text(f"SELECT count(*) {count_from or from_clause}"))

    def fetch_page(self, session: Session, page: TableRequest, **parameters: Any) -> TablePage:
        """Fetch a page and the total number of rows, in two queries.

        :param parameters: the values of the statement's other parameters
        """
        rows = self.pages[page.sort, page.descending].all(
            session, **parameters, limit=page.limit, offset=page.offset
        )
        return TablePage(rows, page, self.count.scalar(session, **parameters))
