"""Responses of the health probes."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, Schema


class LivenessView(Schema):
    """The liveness of the process."""

    status = fields.String(required=True, metadata=doc("Always `live`.", "live"))


class ReadinessChecks(Schema):
    """The state of each dependency: `up` or `down`."""

    database = fields.String(required=True, metadata=doc("State of PostgreSQL.", "up"))
    cache = fields.String(required=True, metadata=doc("State of the cache server.", "up"))


class ReadinessView(Schema):
    """The readiness of the service."""

    status = Choice(
        "ready",
        "not_ready",
        required=True,
        metadata=doc("`not_ready` if the database or the cache fails.", "ready"),
    )

    checks = fields.Nested(ReadinessChecks, required=True, metadata=doc("State of each dependency."))


class ProcessLivenessView(Schema):
    """The liveness of the process under the older name."""

    status = fields.String(required=True, metadata=doc("Always `alive`.", "alive"))


class DependencyCheck(Schema):
    """The state of a dependency."""

    status = Choice("up", "degraded", "unavailable", "down", required=True, metadata=doc("State.", "up"))
    latency_ms = fields.Float(required=True, metadata=doc("Duration of the check in milliseconds.", 3.1))


class DependencyChecks(Schema):
    """The state of seven dependencies."""

    database = fields.Nested(DependencyCheck, required=True, metadata=doc("PostgreSQL."))
    auth = fields.Nested(DependencyCheck, required=True, metadata=doc("Keys of the identity provider."))
    redis = fields.Nested(DependencyCheck, required=True, metadata=doc("The cache server."))
    payment_gateway = fields.Nested(DependencyCheck, required=True, metadata=doc("The payment gateway."))
    gemini_assistant = fields.Nested(DependencyCheck, required=True, metadata=doc("The language model."))
    storage_r2 = fields.Nested(DependencyCheck, required=True, metadata=doc("The object storage."))
    feature_flags = fields.Nested(DependencyCheck, required=True, metadata=doc("The platform settings."))


class DependencyReadinessView(Schema):
    """The readiness with all dependencies."""

    status = Choice(
        "healthy",
        "unhealthy",
        required=True,
        metadata=doc("`unhealthy` if the database or the cache fails.", "healthy"),
    )
    timestamp = fields.DateTime(required=True)
    version = fields.String(required=True, metadata=doc("Revision of the build, or `unknown`.", "9f13c2fa"))
    uptime_seconds = fields.Integer(required=True, metadata=doc("Seconds since the start.", 86400))
    checks = fields.Nested(DependencyChecks, required=True, metadata=doc("State of each dependency."))


class ProbeView(Schema):
    """The record of a dependency's probe."""

    service = fields.String(required=True, metadata=doc("Name for people.", "PostgreSQL"))
    name = fields.String(required=True, metadata=doc("Key of the probe.", "database"))
    status = Choice(
        *("ok", "operational", "degraded", "unavailable", "down"),
        required=True,
        metadata=doc("`ok` (stores) and `operational` (providers) mean no fault.", "ok"),
    )
    latency_ms = fields.Float(required=True, metadata=doc("Duration of the check in milliseconds.", 3.1))
    last_checked_at = fields.DateTime(
        required=True, metadata=doc("Time of the check.", "2026-11-20T09:30:00Z")
    )
    details = fields.Dict(
        required=True, metadata=doc("Reason of a fault, and facts such as `testMode`.", {"testMode": False})
    )


class ProbesView(Schema):
    """The records of the seven probes."""

    database = fields.Nested(ProbeView, required=True, metadata=doc("PostgreSQL."))
    gateway = fields.Nested(ProbeView, required=True, metadata=doc("Degraded with a test key."))
    object_storage = fields.Nested(
        ProbeView, data_key="object_storage", required=True, metadata=doc("Both buckets.")
    )
    ai_model = fields.Nested(
        ProbeView, data_key="ai_model", required=True, metadata=doc("The assistant's model.")
    )
    messaging = fields.Nested(
        ProbeView,
        required=True,
        metadata=doc("Configuration only: `degraded` if configured, otherwise `unavailable`."),
    )
    sms_gateway = fields.Nested(
        ProbeView, data_key="sms_gateway", required=True, metadata=doc("The balance, in naira.")
    )
    cache = fields.Nested(ProbeView, required=True, metadata=doc("The cache server."))


class DiagnosticView(Schema):
    """The diagnostic of all dependencies."""

    status = Choice(
        "ok",
        "degraded",
        required=True,
        metadata=doc("`degraded` if database, cache, gateway or language model has a fault.", "ok"),
    )
    message = fields.String(
        required=True,
        metadata=doc(
            "Summary, with the names of required dependencies that have a fault.",
            "All required dependencies respond.",
        ),
    )
    version = fields.String(required=True, metadata=doc("Revision of the build, or `unknown`.", "9f13c2fa"))
    uptime = fields.Integer(required=True, metadata=doc("Seconds since the start.", 86400))
    timestamp = fields.DateTime(required=True)
    request_id = fields.UUID(required=True)
    checks = fields.Nested(ProbesView, required=True, metadata=doc("Record of each probe."))
