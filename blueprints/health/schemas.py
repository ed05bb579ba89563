"""Responses of the health probes."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import Schema


class LivenessView(Schema):
    """The liveness of the process."""

    status = fields.String(
        required=True, metadata=doc("`live`; of the readiness `ready` or `not_ready`.", "live")
    )


class ReadinessChecks(Schema):
    """The state of each dependency: `up` or `down`."""

    database = fields.String(required=True, metadata=doc("State of PostgreSQL.", "up"))
    cache = fields.String(required=True, metadata=doc("State of the cache server.", "up"))


class ReadinessView(LivenessView):
    """The readiness of the service."""

    checks = fields.Nested(ReadinessChecks, required=True, metadata=doc("State of each dependency."))
