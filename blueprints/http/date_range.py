"""Periods: what clients ask with for what happened within one."""

from typing import Any

from marshmallow import ValidationError, validates_schema

from blueprints.http.fields import DateRangeBound, Schema


class DateRangeQuery(Schema):
    """The parameters of what is asked for by time: ``from`` a moment on, until before ``to``; either may be missing."""

    from_ = DateRangeBound(data_key="from", load_default=None)
    to = DateRangeBound(load_default=None)

    @validates_schema
    def check_order(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a period that ends before it begins."""
        starts, ends = data.get("from_"), data.get("to")
        if starts is not None and ends is not None and starts >= ends:
            raise ValidationError("Is not before the end of the period.", "from")
