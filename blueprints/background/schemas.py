"""Schemas of background work."""

from marshmallow import fields

from blueprints.http.field_docs import DELIVERED_AT, PLACED_AT, doc
from blueprints.http.fields import Choice, Schema, Timestamp


class QueueCounts(Schema):
    """The statistics of a queue, counted from database rows."""

    waiting = fields.Integer(
        required=True, metadata=doc("Due or waiting for a retry, and not in process.", 4)
    )
    active = fields.Integer(required=True, metadata=doc("In process by a worker.", 1))
    failed = fields.Integer(required=True, metadata=doc("Failed the last attempt and not replayed.", 0))
    completed = fields.Integer(
        required=True, metadata=doc("All rows completed so far, including deleted rows.", 1842)
    )


class QueueStatistics(Schema):
    """The statistics of all queues by name."""

    queues = fields.Dict(
        keys=fields.String(),
        values=fields.Nested(QueueCounts),
        required=True,
        metadata=doc(
            "Statistics by name of the queue.",
            {"notifications": {"waiting": 4, "active": 1, "failed": 0, "completed": 1842}},
        ),
    )
    redis_memory_used_bytes = fields.Integer(
        required=True, metadata=doc("Memory that the cache server uses, in bytes.", 2_097_152)
    )
    connected_workers = fields.Integer(
        required=True,
        metadata=doc("Live worker processes. A live worker sends a heartbeat every second.", 4),
    )


class PeriodicTaskView(Schema):
    """A periodic task with schedule (UTC) and last result."""

    name = fields.String(
        required=True, metadata=doc("Name of the task, as in `marketplace periodic`.", "requery-transfers")
    )
    purpose = fields.String(
        required=True,
        metadata=doc(
            "Effect of a run, in a sentence.", "Poll the gateway for payouts without a final status"
        ),
    )
    queue = fields.String(
        required=True, metadata=doc("Queue whose worker runs the task.", "escrow-reconciliation")
    )
    timetable = fields.String(
        required=True,
        attribute="effective_schedule.text",
        metadata=doc("An interval such as `every 15s`, or a crontab expression.", "* * * * *"),
    )
    rescheduled = fields.Boolean(
        required=True,
        attribute="is_rescheduled",
        metadata=doc("True if an operator changed the timetable.", False),
    )
    paused_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time when an operator paused the task; null while not paused.", None),
    )
    next_run_at = Timestamp(
        attribute="upcoming_run_at",
        required=True,
        allow_none=True,
        metadata=doc("Null while the task is paused.", DELIVERED_AT),
    )
    running_since = Timestamp(
        attribute="started_at",
        required=True,
        allow_none=True,
        metadata=doc("Start of the present run; null between runs.", None),
    )
    running_on = fields.String(
        attribute="run_by",
        required=True,
        allow_none=True,
        metadata=doc("Worker of the present run; null between runs.", None),
    )
    last_finished_at = Timestamp(
        attribute="finished_at",
        required=True,
        allow_none=True,
        metadata=doc("End of the last run; null before the first.", PLACED_AT),
    )
    last_duration_milliseconds = fields.Integer(
        attribute="duration_milliseconds",
        required=True,
        allow_none=True,
        metadata=doc("Duration of the last run in milliseconds.", 18),
    )
    last_outcome = Choice(
        "succeeded",
        "failed",
        "interrupted",
        attribute="outcome",
        required=True,
        allow_none=True,
        metadata=doc("Outcome of the last run; null before the first.", "succeeded"),
    )
    last_error = fields.String(
        attribute="error",
        required=True,
        allow_none=True,
        metadata=doc("The type of the error; null without an error.", None),
    )
    last_result = fields.String(
        attribute="result",
        required=True,
        allow_none=True,
        metadata=doc("Summary of the last run.", "polled=2"),
    )
    runs = fields.Integer(required=True, metadata=doc("Number of finished runs.", 960))
    failures_in_a_row = fields.Integer(
        attribute="failures", required=True, metadata=doc("Number of failed runs since the last success.", 0)
    )
