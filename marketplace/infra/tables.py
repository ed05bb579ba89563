"""Tables that people sort: one statement for each way, so that each is planned once.

A sort key has the name of the field in the reply; each table names the column behind it.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
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
        """Compile a statement for each way to sort, and one that counts.

        :param columns: ``SELECT ...``
        :param from_clause: ``FROM ... WHERE ...``
        :param sort_columns: column by sort key
        :param row: the dataclass of its rows
        :param tie_breaker: the column that orders equal rows
        :param nullable: sort keys without a value in some rows, which come last in both directions
        :param count_from: a cheaper ``FROM ... WHERE ...`` with as many rows
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
        """Fetch a page in two queries: the rows, and the total.

        :param parameters: the values of the statement's other parameters
        """
        rows = self.pages[page.sort, page.descending].all(
            session, **parameters, limit=page.limit, offset=page.offset
        )
        return TablePage(rows, page, self.count.scalar(session, **parameters))
