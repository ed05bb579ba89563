"""What the probes answer."""

from marshmallow import fields

from blueprints.http.fields import Schema


class LivenessView(Schema):
    """Liveness."""

    status = fields.String(required=True)


class ReadinessChecks(Schema):
    """Whether each dependency is up or down."""

    database = fields.String(required=True)
    cache = fields.String(required=True)


class ReadinessView(LivenessView):
    """Readiness."""

    checks = fields.Nested(ReadinessChecks, required=True)
