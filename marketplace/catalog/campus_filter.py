"""Campuses as clients name them: by id or by slug."""

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
    """Give the parameter that a named campus becomes, under the name of its condition.

    :param campus: its id or slug, or none
    :return: one parameter, or none
    """
    if campus is None:
        return {}
    campus_id = parse_uuid(campus)
    return {BY_CAMPUS_SLUG: campus} if campus_id is None else {BY_CAMPUS_ID: campus_id}


def campus_sql(column: str, by: str | None) -> str:
    """Write the condition that a column is the named campus, or is any.

    :param by: one of ``CAMPUS_PARAMETERS``
    """
    return "true" if by is None else f"{column} = {_CAMPUS_SQL[by]}"


def campus_condition(column: InstrumentedAttribute[UUID], by: str) -> ColumnElement[bool]:
    """Make the condition that a column is the named campus.

    :param column: holds a campus's id
    :param by: ``BY_CAMPUS_ID`` or ``BY_CAMPUS_SLUG``
    """
    if by == BY_CAMPUS_ID:
        return column == bindparam(BY_CAMPUS_ID)
    return column == select(Campus.id).where(Campus.slug == bindparam(BY_CAMPUS_SLUG)).scalar_subquery()
