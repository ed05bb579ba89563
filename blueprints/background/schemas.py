"""Schemas of background work."""

from marshmallow import fields

from blueprints.http.fields import Choice, Schema, Timestamp


class QueueCounts(Schema):
    """The statistics of a queue, counted from database rows."""

    waiting = fields.Integer(
        required=True, metadata={"description": "Due or waiting for a retry, and not in process."}
    )
    active = fields.Integer(required=True, metadata={"description": "In process by a worker."})
    failed = fields.Integer(
        required=True, metadata={"description": "Failed the last attempt and not replayed."}
    )
    completed = fields.Integer(
        required=True, metadata={"description": "All rows completed so far, including deleted rows."}
    )


class QueueStatistics(Schema):
    """The statistics of all queues by name."""

    queues = fields.Dict(keys=fields.String(), values=fields.Nested(QueueCounts), required=True)
    redis_memory_used_bytes = fields.Integer(required=True)
    connected_workers = fields.Integer(
        required=True,
        metadata={"description": "Live worker processes. A live worker sends a heartbeat every second."},
    )


class PeriodicTaskView(Schema):
    """A periodic task with schedule (UTC) and last result."""

    name = fields.String(required=True)
    purpose = fields.String(required=True)
    queue = fields.String(required=True)
    timetable = fields.String(
        required=True,
        attribute="effective_schedule.text",
        metadata={"description": "An interval such as `every 15s`, or a crontab expression."},
    )
    rescheduled = fields.Boolean(
        required=True,
        attribute="is_rescheduled",
        metadata={"description": "True if an operator changed the timetable."},
    )
    paused_at = Timestamp(required=True, allow_none=True)
    next_run_at = Timestamp(
        attribute="upcoming_run_at",
        required=True,
        allow_none=True,
        metadata={"description": "Null while the task is paused."},
    )
    running_since = Timestamp(attribute="started_at", required=True, allow_none=True)
    running_on = fields.String(attribute="run_by", required=True, allow_none=True)
    last_finished_at = Timestamp(attribute="finished_at", required=True, allow_none=True)
    last_duration_milliseconds = fields.Integer(
        attribute="duration_milliseconds", required=True, allow_none=True
    )
    last_outcome = Choice(
        "succeeded", "failed", "interrupted", attribute="outcome", required=True, allow_none=True
    )
    last_error = fields.String(
        attribute="error", required=True, allow_none=True, metadata={"description": "The type of the error."}
    )
    last_result = fields.String(attribute="result", required=True, allow_none=True)
    runs = fields.Integer(required=True)
    failures_in_a_row = fields.Integer(attribute="failures", required=True)
