"""Fields and schemas for JSON: camelCase names, no silent conversions, no unknown fields."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

import marshmallow
from marshmallow import fields, post_load, pre_load, validate, validates_schema

from blueprints.http.field_docs import doc
from marketplace.kernel import demo_ids
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.opening_hours import (
    CLOSING_TIME_PATTERN,
    DAYS,
    MAX_INTERVALS,
    TIME_PATTERN,
    InvalidHoursError,
    WeeklyHours,
)
from marketplace.kernel.paging import DEFAULT_LIMIT, DEFAULT_TABLE_LIMIT, MAX_LIMIT, MAX_PAGE_NUMBER
from marketplace.kernel.phones import normalise_phone

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
# Invisible characters that arrive with pasted text: zero-width spaces and marks, and direction controls.
# Joiners between emoji or non-Latin characters are kept, because these characters need joiners.
_INVISIBLE_CHARACTERS = re.compile(
    r"[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_STRAY_JOINERS = re.compile(
    r"(?<![^\x00-\u02ff\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u02ff\u200c\u200d])"
)
_DIGITS = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{1,15})?", re.ASCII)
_CAPITAL = re.compile(r"[A-Z]")
# Fields that the specification spells with underscores.
_SPELLED_WITH_UNDERSCORES = frozenset({"total_amount"})
MAX_INT64 = 2**63 - 1


def camel_case(name: str) -> str:
    """Write a snake_case name in camelCase."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def snake_case(name: str) -> str:
    """Write a camelCase name in snake_case."""
    return _CAPITAL.sub(lambda capital: f"_{capital.group().lower()}", name)


def is_null_kept(field: fields.Field[Any]) -> bool:
    """Return whether null is a field's value or fault. Otherwise null means that the field is left out.

    Many clients send null for optional fields. If ``allow_none`` is set, null has a meaning of its own.
    """
    return field.required or bool(field.allow_none)


class Schema(marshmallow.Schema):
    """A schema with camelCase names in JSON. A field's ``data_key`` overrides the name.

    ``example_id`` is the id in the documentation's example. ``example_omits`` names the fields that the example of a
    request body leaves out, because the fields exclude each other.
    """

    example_id: ClassVar[UUID | None] = None
    example_omits: ClassVar[frozenset[str]] = frozenset()

    class Meta:
        """Refuse unknown fields."""

        unknown = marshmallow.RAISE

    @pre_load(pass_collection=True)
    def leave_out_nulls(self, data: Any, *, many: bool, **_kwargs: Any) -> Any:
        """Remove optional fields that are null, unless null has a meaning."""
        if many:
            return [self._without_nulls(item) for item in data] if isinstance(data, list) else data
        return self._without_nulls(data)

    def _without_nulls(self, data: Any) -> Any:
        if not isinstance(data, dict) or None not in data.values():
            return data
        optional = {field.data_key for field in self.fields.values() if not is_null_kept(field)}
        return {name: value for name, value in data.items() if value is not None or name not in optional}

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        """Set a field's name in JSON."""
        if field_obj.data_key is None:
            field_obj.data_key = camel_case(field_name)


class Text(fields.String):
    """A text without control characters, stripped at both ends. Line breaks and tabs are allowed.

    Invisible characters are removed and accents composed (NFC), so that texts that look the same are the same.
    """

    def __init__(self, *, max_length: int, min_length: int = 1, **kwargs: Any) -> None:
        super().__init__(validate=validate.Length(min=min_length, max=max_length), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text: str = super()._deserialize(value, attr, data, **kwargs)
        if _CONTROL_CHARACTERS.search(text):
            raise marshmallow.ValidationError("Must not contain control characters.")
        visible = _STRAY_JOINERS.sub("", _INVISIBLE_CHARACTERS.sub("", text))
        return unicodedata.normalize("NFC", visible).strip()


class SingleLineText(Text):
    """A text of one line. Every run of white space becomes one space."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        return " ".join(super()._deserialize(value, attr, data, **kwargs).split())


class UniqueList(fields.List[Any]):
    """A list of bounded length without duplicates."""

    def __init__(
        self, inner: fields.Field[Any], *, max_length: int, min_length: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(inner, validate=validate.Length(min=min_length or None, max=max_length), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> list[Any]:
        loaded = super()._deserialize(value, attr, data, **kwargs) or []
        first_index = {item: index for index, item in reversed(list(enumerate(loaded)))}
        duplicates = {
            index: ["Must not repeat an earlier item."]
            for index, item in enumerate(loaded)
            if index != first_index[item]
        }
        if duplicates:
            raise marshmallow.ValidationError(duplicates)
        return loaded


class FullMatch(validate.Regexp):
    """A validator of whole texts. The expression is anchored by ``^`` and ``$``, as OpenAPI expects.

    In Python ``$`` also matches before a final line break, so the check itself uses a full match.
    """

    def __init__(self, expression: str, *, error: str) -> None:
        super().__init__(f"^{expression}$", error=error)
        self._expression = re.compile(expression)

    def __call__(self, value: str) -> str:  # type: ignore[override]
        """Check that the whole text matches the expression."""
        if self._expression.fullmatch(value) is None:
            raise marshmallow.ValidationError(self._format_error(value))
        return value


class Phone(fields.String):
    """A mobile number, loaded in E.164 format. Numbers without a country code are Nigerian."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        number = normalise_phone(super()._deserialize(value, attr, data, **kwargs))
        if number is None:
            raise marshmallow.ValidationError(
                "Must be a mobile number, such as +2348031234567 or 08031234567."
            )
        return number


AccountNumber = partial(fields.String, validate=FullMatch("[0-9]{10}", error="Must be 10 digits."))
BankCode = partial(
    fields.String, validate=FullMatch("[0-9A-Za-z]{3,12}", error="Must be a bank code, such as 058.")
)


class StrictInteger(fields.Integer):
    """An integer in JSON. Strings, booleans and decimals are refused."""

    def __init__(self, *, minimum: int, maximum: int = MAX_INT64, **kwargs: Any) -> None:
        super().__init__(strict=True, validate=validate.Range(min=minimum, max=maximum), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        if type(value) is not int:
            raise self.make_error("invalid", input=value)
        return value


class IntegerParameter(StrictInteger):
    """An integer in a query string."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        if not isinstance(value, str) or not _DIGITS.fullmatch(value):
            raise self.make_error("invalid", input=value)
        return int(value)


class StrictBoolean(fields.Boolean):
    """A boolean in JSON. Strings and numbers are refused."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


class BooleanParameter(fields.Boolean):
    """``true`` or ``false`` in a query string, in any letter case."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(truthy={"true"}, falsy={"false"}, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        folded = value.lower() if isinstance(value, str) else value
        return bool(super()._deserialize(folded, attr, data, **kwargs))


class Uuid(fields.UUID):
    """A UUID in its canonical form."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> UUID:
        parsed = parse_uuid(value) if isinstance(value, str) else None
        if parsed is None:
            raise self.make_error("invalid_uuid")
        return parsed


class Choice(fields.String):
    """A word from a fixed set."""

    def __init__(self, *words: str, **kwargs: Any) -> None:
        super().__init__(validate=validate.OneOf(words), **kwargs)


class SortKey(Choice):
    """The sort key of a table."""


def sort_choice(keys: Iterable[str], *, default: str) -> SortKey:
    """Build the field for a table's sort key. Sort keys have the names of the reply's fields.

    :param keys: sort keys of the table's query, in snake_case
    """
    names = {key: key if key in _SPELLED_WITH_UNDERSCORES else camel_case(key) for key in keys}
    return SortKey(*names.values(), load_default=names[default])


# An amount in kobo.
MinorAmount = partial(StrictInteger, minimum=0, maximum=10**15)


class Timestamp(fields.AwareDateTime):
    """A time in ISO 8601 with a time zone, loaded in UTC."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> datetime:
        try:
            return super()._deserialize(value, attr, data, **kwargs).astimezone(UTC)
        except OverflowError as error:
            raise self.make_error("invalid", input=value, obj_type=self.OBJ_TYPE) from error


# An absolute URL, by default with the scheme http or https.
HttpUrl = partial(
    fields.Url, schemes={"http", "https"}, require_tld=False, validate=validate.Length(max=2000)
)


class Degrees(fields.Float):
    """An angle in degrees, as a JSON number between ``-max_degrees`` and ``max_degrees``."""

    def __init__(self, *, max_degrees: float, **kwargs: Any) -> None:
        super().__init__(validate=validate.Range(min=-max_degrees, max=max_degrees), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> float:
        if isinstance(value, bool | str):
            raise self.make_error("invalid", input=value)
        return super()._deserialize(value, attr, data, **kwargs)


class OpeningInterval(Schema):
    """An interval of opening on a day of the week, in Nigerian time (UTC+1)."""

    day = Choice(*DAYS, required=True, metadata=doc("Day of the week.", "monday"))
    opens = fields.String(
        required=True,
        validate=FullMatch(TIME_PATTERN, error="Must be a time from 00:00 to 23:59."),
        metadata=doc("Time of opening.", "08:00"),
    )
    closes = fields.String(
        required=True,
        validate=FullMatch(CLOSING_TIME_PATTERN, error="Must be a time from 00:00 to 24:00."),
        metadata=doc("Time of closing on the same day; 24:00 is the end of the day.", "20:00"),
    )


class OpeningIntervalView(OpeningInterval):
    """An interval of opening in a reply."""


class OpeningHoursView(fields.List[Any]):
    """The opening hours of a week in a reply: the intervals of ``WeeklyHours``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(fields.Nested(OpeningIntervalView), **kwargs)


class OpeningHours(fields.List[Any]):
    """The opening hours of a week in a body, loaded as ``WeeklyHours``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            fields.Nested(OpeningInterval), validate=validate.Length(max=MAX_INTERVALS), **kwargs
        )

    def deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Load intervals that do not overlap."""
        intervals = super().deserialize(value, *args, **kwargs)
        if not isinstance(intervals, list):
            return intervals
        try:
            return WeeklyHours.parse(intervals)
        except InvalidHoursError as error:
            raise marshmallow.ValidationError(
                {index: [reason] for index, reason in error.faults.items()}
            ) from error


class DegreesParameter(Degrees):
    """An angle in degrees in a query string, in decimal notation."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> float:
        if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
            raise self.make_error("invalid", input=value)
        return super()._deserialize(float(value), attr, data, **kwargs)


class Identified(Schema):
    """A resource with an id."""

    id = Uuid(required=True)


class NamedResource(Identified):
    """A resource with a name."""

    example_id = demo_ids.CAMPUS

    name = fields.String(required=True, metadata=doc("Name for people.", "North Campus"))
    slug = fields.String(required=True, metadata=doc("Name for URLs, in lower case with hyphens.", "north"))


class StoreName(Identified):
    """A store by its public name."""

    example_id = demo_ids.STORE

    display_name = fields.String(required=True)
    slug = fields.String(
        required=True, metadata=doc("Name for URLs, in lower case with hyphens.", "ngozi-books-gadgets")
    )


class Created(Identified):
    """A resource with the time of its creation."""

    created_at = Timestamp(required=True)


class Updated(Created):
    """A resource with the time of its last change."""

    updated_at = Timestamp(required=True)


class Revised(Updated):
    """A resource with a revision."""

    revision = StrictInteger(minimum=1, required=True)


class ClearList(UniqueList):
    """The fields that a change empties, by their names in JSON. A dot leads to a field of a nested object."""

    def __init__(self, *names: str) -> None:
        super().__init__(
            Choice(*names),
            max_length=len(names),
            metadata=doc(f"Names of optional fields to empty, such as `{names[0]}`.", []),
        )


class ClearableFields(Schema):
    """A change that can empty optional fields, because null means that a field is left out.

    A subclass declares the fields: ``clear = ClearList("phone", "policies.returns")``.
    """

    @post_load
    def apply_clear(self, data: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """Set the fields to clear to None.

        :raises marshmallow.ValidationError: a field is both set and cleared
        """
        for path in data.pop("clear", ()):
            *outer, name = map(snake_case, path.split("."))
            target = data
            for part in outer:
                target = target.setdefault(part, {})
            if name in target:
                raise marshmallow.ValidationError(f"Do not send a value for {path} too.", "clear")
            target[name] = None
        return data


class DistinctItems(Schema):
    """A request whose optional ``items`` name products, none of them twice."""

    @validates_schema
    def check_items(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a product that is listed twice."""
        seen = set()
        for index, item in enumerate(data.get("items", ())):
            if item["product_id"] in seen:
                fault = {index: {"productId": ["This product is listed twice."]}}
                raise marshmallow.ValidationError({"items": fault})
            seen.add(item["product_id"])


class ExpectedRevision(Schema):
    """A change with the revision that its client read."""

    revision = StrictInteger(
        minimum=1,
        metadata={
            "description": "The revision that you read. The request is refused if the resource has changed since."
        },
    )


class Deleted(Identified):
    """The reply to a DELETE request."""

    deleted = fields.Boolean(required=True, metadata=doc("Always true.", True))


class CursorQuery(Schema):
    """The parameters of a collection paged by cursor."""

    limit = IntegerParameter(minimum=1, maximum=MAX_LIMIT, load_default=DEFAULT_LIMIT)
    cursor = Text(max_length=1024, load_default=None)


class OffsetQuery(Schema):
    """The parameters of a table paged by number.

    A table adds its sort keys: ``sort = sort_choice(queries.SORTS, default="created_at")``.
    """

    page = IntegerParameter(minimum=1, maximum=MAX_PAGE_NUMBER, load_default=1)
    limit = IntegerParameter(minimum=1, maximum=MAX_LIMIT, load_default=DEFAULT_TABLE_LIMIT)
    order = Choice("asc", "desc", load_default="desc")


class OffsetOrCursorQuery(OffsetQuery):
    """The parameters of a table paged by number, or by cursor to avoid skipped and repeated rows.

    Every page has the cursor of the next page. Without page and cursor the first page by number is returned.
    """

    page = IntegerParameter(minimum=1, maximum=MAX_PAGE_NUMBER)
    cursor = Text(max_length=1024, load_default=None)

    @validates_schema
    def check_page_or_cursor(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that a request has no page number beside a cursor."""
        if data.get("cursor") is not None and "page" in data:
            raise marshmallow.ValidationError("Must not be combined with page.", "cursor")


def _ensure_not_ancient(moment: datetime) -> None:
    if moment.year < 2000:
        raise marshmallow.ValidationError("Must not be before the year 2000.")


# A bound of a date range.
DateRangeBound = partial(Timestamp, validate=_ensure_not_ancient)


class DateRangeQuery(Schema):
    """The parameters of a period, from ``from`` (included) to ``to`` (excluded). Both are optional."""

    from_ = DateRangeBound(data_key="from", load_default=None)
    to = DateRangeBound(load_default=None)

    @validates_schema
    def check_order(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that the period starts before it ends."""
        starts, ends = data.get("from_"), data.get("to")
        if starts is not None and ends is not None and starts >= ends:
            raise marshmallow.ValidationError("Must be before `to`.", "from")


class AddressFields(Schema):
    """The fields of an address: location and directions."""

    label = SingleLineText(max_length=60)
    hostel = SingleLineText(max_length=120)
    hall = SingleLineText(max_length=120)
    room_number = SingleLineText(max_length=40)
    latitude = Degrees(max_degrees=90)
    longitude = Degrees(max_degrees=180)
    instructions = Text(max_length=500)
    phone = Phone()

    @validates_schema
    def check_coordinates(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that latitude and longitude come together."""
        is_given = [data.get(name) is not None for name in ("latitude", "longitude")]
        if any(is_given) and not all(is_given):
            raise marshmallow.ValidationError(
                "Send latitude and longitude together.", "longitude" if is_given[0] else "latitude"
            )
