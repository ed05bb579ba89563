"""Schemas of the public status and of incidents."""

from marshmallow import fields

from blueprints.http.field_docs import DELIVERED_AT, PLACED_AT, doc
from blueprints.http.fields import Choice, Identified, Schema, SingleLineText, Text, Timestamp
from marketplace.health import incidents, queries as health
from marketplace.kernel import demo_ids

_NOTE = "Payments by bank transfer arrive up to an hour late. Card payments are not affected."


class OpenIncident(Schema):
    """An incident to announce, with the first note."""

    title = SingleLineText(
        min_length=3,
        max_length=120,
        required=True,
        metadata=doc("Public title.", "Bank transfers arrive late"),
    )
    impact = Choice(*incidents.IMPACTS, required=True, metadata=doc("How bad the fault is.", "minor"))
    components = fields.List(
        Choice(*health.COMPONENTS),
        load_default=list,
        metadata=doc(
            "Affected components. Their public status becomes `degraded`, or `down` for a `critical` incident.",
            [],
        ),
    )
    message = Text(
        min_length=3, max_length=1_000, required=True, metadata=doc("Public text of the first note.", _NOTE)
    )


class AddIncidentNote(Schema):
    """A further note about an incident."""

    status = Choice(
        *incidents.NOTE_STATUSES,
        required=True,
        metadata=doc("Status from now on. `resolved` closes the incident.", "monitoring"),
    )
    message = Text(
        min_length=3,
        max_length=1_000,
        required=True,
        metadata=doc("Public text.", "The bank has solved the problem. We are monitoring new transfers."),
    )


class IncidentNoteView(Identified):
    """A note about an incident."""

    example_id = demo_ids.INCIDENT

    status = Choice(
        *incidents.NOTE_STATUSES,
        required=True,
        metadata=doc("Status since the note.", "investigating"),
    )
    message = fields.String(required=True, metadata=doc("Text of the note.", _NOTE))
    created_at = Timestamp(required=True, metadata=doc("Time of the note.", PLACED_AT))


class IncidentView(Schema):
    """An incident with its notes."""

    id = fields.UUID(
        attribute="incident.id", required=True, metadata=doc("Id of the incident.", demo_ids.INCIDENT)
    )
    title = fields.String(
        attribute="incident.title", required=True, metadata=doc("Title.", "Bank transfers arrive late")
    )
    impact = Choice(
        *incidents.IMPACTS,
        attribute="incident.impact",
        required=True,
        metadata=doc("How bad the fault is.", "minor"),
    )
    status = Choice(
        *incidents.NOTE_STATUSES,
        required=True,
        metadata=doc("Status of the latest note.", "investigating"),
    )
    components = fields.List(
        Choice(*health.COMPONENTS),
        attribute="incident.components",
        required=True,
        metadata=doc("Affected components.", ["payments"]),
    )
    started_at = Timestamp(
        attribute="incident.started_at",
        required=True,
        metadata=doc("Time of the announcement.", PLACED_AT),
    )
    resolved_at = Timestamp(
        attribute="incident.resolved_at",
        required=True,
        allow_none=True,
        metadata=doc("Time of the resolution; null before.", DELIVERED_AT),
    )
    notes = fields.List(
        fields.Nested(IncidentNoteView), required=True, metadata=doc("Notes, the latest first.")
    )


class MaintenanceState(Schema):
    """The state of maintenance."""

    active = fields.Boolean(required=True, metadata=doc("Whether maintenance is on.", False))
    message = fields.String(
        required=True, allow_none=True, metadata=doc("Message for users; null without a message.", None)
    )
    until = Timestamp(
        required=True, allow_none=True, metadata=doc("Planned end; null without a known end.", None)
    )


class ServiceComponent(Schema):
    """A component of the service with its status."""

    name = Choice(*health.COMPONENTS, required=True, metadata=doc("Name of the component.", "payments"))
    status = Choice(
        *health.COMPONENT_STATUSES, required=True, metadata=doc("Status of the component.", "operational")
    )


class PlatformStatus(Schema):
    """The public status of the service."""

    status = Choice(
        *health.COMPONENT_STATUSES,
        health.MAINTENANCE,
        required=True,
        metadata=doc("Worst status of the components, or maintenance.", "operational"),
    )
    maintenance = fields.Nested(MaintenanceState, required=True, metadata=doc("State of maintenance."))
    components = fields.List(
        fields.Nested(ServiceComponent), required=True, metadata=doc("Components of the service.")
    )
    features = fields.Dict(
        keys=fields.String(), values=fields.Boolean(), required=True,
        metadata=doc("The state of each feature: true if on.", {"checkout": True}),
    )  # fmt: skip
    incidents = fields.List(
        fields.Nested(IncidentView),
        required=True,
        metadata=doc("Open incidents, and incidents resolved in the last 7 days."),
    )
