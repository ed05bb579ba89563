"""Filters by a campus that a client names by id or slug."""

from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam, select
from sqlalchemy.orm import InstrumentedAttribute

from marketplace.kernel.ids import parse_uuid
from marketplace.platform.models import Campus

BY_CAMPUS_ID = "campus_id"
BY_CAMPUS_SLUG = "campus_slug"
_CAMPUS_SQL = {
    BY_CAMPUS_ID: ":campus_id",
    BY_CAMPUS_SLUG: "(SELECT named.id FROM campuses named WHERE named.slug = :campus_slug)",
}
CAMPUS_PARAMETERS = (None, *_CAMPUS_SQL)


def campus_parameters(campus: str | None) -> dict[str, Any]:
    """Return the SQL parameter for a campus, keyed by the name of its condition.

    :param campus: id, slug or None
    :return: one parameter, or empty for None
    """
    if campus is None:
        return {}
    campus_id = parse_uuid(campus)
    return {BY_CAMPUS_SLUG: campus} if campus_id is None else {BY_CAMPUS_ID: campus_id}


def campus_sql(column: str, by: str | None) -> str:
    """Write the SQL condition that a column equals the campus, or that is always true without a campus.

    :param by: one of ``CAMPUS_PARAMETERS``
    """
    return "true" if by is None else f"{column} = {_CAMPUS_SQL[by]}"


def campus_condition(column: InstrumentedAttribute[UUID], by: str) -> ColumnElement[bool]:
    """Build the condition that a column equals the campus.

    :param column: holds a campus id
    :param by: ``BY_CAMPUS_ID`` or ``BY_CAMPUS_SLUG``
    """
    if by == BY_CAMPUS_ID:
        return column == bindparam(BY_CAMPUS_ID)
    return column == select(Campus.id).where(Campus.slug == bindparam(BY_CAMPUS_SLUG)).scalar_subquery()
