"""What the probes answer."""

from marshmallow import fields

from blueprints.http.fields import Schema


class Live(Schema):
    """Liveness."""

    status = fields.String(required=True)


class ReadyChecks(Schema):
    """Whether each dependency is up or down."""

    database = fields.String(required=True)
    cache = fields.String(required=True)


class Ready(Schema):
    """Readiness."""

    status = fields.String(required=True)
    checks = fields.Nested(ReadyChecks, required=True)
