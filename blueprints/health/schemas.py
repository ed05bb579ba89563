"""Responses of the health probes."""

from marshmallow import fields

from blueprints.http.fields import Schema


class LivenessView(Schema):
    """The liveness of the process."""

    status = fields.String(required=True)


class ReadinessChecks(Schema):
    """The state of each dependency: `up` or `down`."""

    database = fields.String(required=True)
    cache = fields.String(required=True)


class ReadinessView(LivenessView):
    """The readiness of the service."""

    checks = fields.Nested(ReadinessChecks, required=True)
