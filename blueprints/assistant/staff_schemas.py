"""Schemas of the assistant for staff."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    CursorQuery,
    Schema,
    StrictInteger,
    Timestamp,
    Uuid,
)
from marketplace.assistant import staff, threads
from marketplace.kernel import demo_ids

_FIRST_DAY, _LAST_DAY = "2035-03-01", "2035-03-31"


def _first_day() -> fields.Date:
    return fields.Date(
        data_key="from",
        load_default=None,
        metadata=doc(f"First day; {staff.DEFAULT_DAYS} days up to `to` by default.", _FIRST_DAY),
    )


def _last_day() -> fields.Date:
    return fields.Date(load_default=None, metadata=doc("Last day; today by default.", _LAST_DAY))


def _count(description: str, example: int) -> StrictInteger:
    return StrictInteger(minimum=0, required=True, metadata=doc(description, example))


class UsagePeriod(Schema):
    """The period in days in Nigeria, both included."""

    from_ = _first_day()
    to = _last_day()


class PersonUsageQuery(CursorQuery):
    """The period in days in Nigeria, both included, and the page."""

    from_ = _first_day()
    to = _last_day()


class UsageFigures(Schema):
    """Calls, tokens and cost of the language model."""

    calls = _count("Answers, titles, replies and summaries.", 12)
    prompt_tokens = _count("Tokens that were sent.", 24_000)
    completion_tokens = _count("Tokens that were written.", 1_800)
    cost_micros = _count("Cost in millionths of a US dollar, by the configured prices.", 9_600)


class DailyUsageView(UsageFigures):
    """The use of the language model on a day."""

    day = fields.Date(required=True, metadata=doc("Day in Nigeria.", _LAST_DAY))
    purpose = Choice(
        "conversation",
        "session_title",
        "support_reply",
        "thread_summary",
        required=True,
        metadata=doc("Purpose of the calls.", "conversation"),
    )
    people = _count("People with calls.", 5)


class PersonUsageView(UsageFigures):
    """The use of the language model by a person."""

    user_id = Uuid(required=True, metadata=doc("Person.", demo_ids.BUYER))
    name = fields.String(required=True, allow_none=True, metadata=doc("Name of the person.", "Ada Obi"))


class FlaggedThreadQuery(CursorQuery):
    """The filter of flagged threads."""

    reviewed = BooleanParameter(
        load_default=None, metadata=doc("Only reviewed threads, or only others; both by default.", False)
    )


class FlaggedThreadView(Schema):
    """A thread that a person flagged."""

    id = Uuid(required=True, metadata=doc("Thread.", demo_ids.ASSISTANT_THREAD))
    user_id = Uuid(required=True, metadata=doc("Person who flagged the thread.", demo_ids.BUYER))
    user_name = fields.String(required=True, allow_none=True, metadata=doc("Name of the person.", "Ada Obi"))
    title = fields.String(
        required=True, allow_none=True, metadata=doc("Title; null without one.", "Reading lamp for room")
    )
    message_count = _count("Number of messages.", 2)
    flag_reason = Choice(*threads.FLAG_REASONS, required=True, metadata=doc("Reason of the flag.", "wrong"))
    flag_details = fields.String(
        required=True, allow_none=True, metadata=doc("What was wrong.", "The price was not right.")
    )
    flagged_at = Timestamp(required=True, metadata=doc("Time of the flag.", "2035-03-05T10:00:00Z"))
    reviewed_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the review; null before it.", None)
    )


class IntentScore(Schema):
    """The score of an intent."""

    intent = fields.String(required=True, metadata=doc("Intent of the questions.", "search"))
    questions = _count("Questions with this intent.", 12)
    right = _count("Right answers.", 11)


class EvaluationView(Schema):
    """The scores of an evaluation of the assistant."""

    id = Uuid(required=True, metadata=doc("Evaluation.", demo_ids.ASSISTANT_EVALUATION))
    model = fields.String(required=True, metadata=doc("Model that answered.", "gpt-5-mini"))
    prompt_version = fields.String(required=True, metadata=doc("Version of the prompt.", "conversation_v1"))
    question_count = _count("Questions.", 64)
    right_count = _count("Right answers.", 60)
    scores = fields.List(fields.Nested(IntentScore), required=True, metadata=doc("Right answers by intent."))
    created_at = Timestamp(required=True)
