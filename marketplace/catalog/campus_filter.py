"""Campuses as clients name them: by id or by slug."""

from typing import Any

from sqlalchemy import ColumnElement, bindparam, select

from marketplace.kernel.ids import parse_uuid
from marketplace.platform.models import Campus

BY_CAMPUS_ID = "campus_id"
BY_CAMPUS_SLUG = "campus_slug"


def campus_parameters(campus: str | None) -> dict[str, Any]:
    """Give the parameter that a named campus becomes, under the name of its condition.

    :param campus: its id or slug, or none
    :return: one parameter, or none
    """
    if campus is None:
        return {}
    campus_id = parse_uuid(campus)
    return {BY_CAMPUS_SLUG: campus} if campus_id is None else {BY_CAMPUS_ID: campus_id}


def campus_condition(column: Any, by: str) -> ColumnElement[bool]:
    """Make the condition that a column is the named campus.

    :param column: holds a campus's id
    :param by: ``BY_CAMPUS_ID`` or ``BY_CAMPUS_SLUG``
    """
    if by == BY_CAMPUS_ID:
        condition: ColumnElement[bool] = column == bindparam(BY_CAMPUS_ID)
    else:
        condition = (
            column == select(Campus.id).where(Campus.slug == bindparam(BY_CAMPUS_SLUG)).scalar_subquery()
        )
    return condition
