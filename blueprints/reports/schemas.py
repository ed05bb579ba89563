"""Schemas of reports."""

from marshmallow import fields

from blueprints.http.field_docs import PLACED_AT, doc
from blueprints.http.fields import (
    Choice,
    Created,
    CursorQuery,
    Identified,
    Schema,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.chat.moderation import CONTEXT_MESSAGES
from marketplace.chat.participants import SIDES
from marketplace.kernel import demo_ids
from marketplace.reports import decide, queries
from marketplace.reports.submit import HIDING_REPORTS, REASONS
from marketplace.reports.targets import TARGET_TYPES, TARGETS


class SubmitReport(Schema):
    """A report of a product, a review, a person or a chat message."""

    target_type = Choice(
        *TARGET_TYPES, required=True, metadata=doc("Type of the reported content.", "product")
    )
    target_id = Uuid(required=True, metadata=doc("Id of the reported content.", demo_ids.PRODUCT))
    reason = Choice(*REASONS, required=True, metadata=doc("Reason of the report.", "counterfeit"))
    details = Text(
        min_length=1,
        max_length=1_000,
        metadata=doc("Details for staff.", "The logo is misspelled, and the box has no serial number."),
    )


class ReportView(Identified):
    """Your report."""

    reason = Choice(*REASONS, required=True, metadata=doc("Reason of the report.", "counterfeit"))
    details = fields.String(
        attribute="text",
        required=True,
        allow_none=True,
        metadata=doc("Details for staff; null without details.", "The logo is misspelled."),
    )
    created_at = Timestamp(required=True)


class CaseQuery(CursorQuery):
    """Filters of reported content."""

    target_type = Choice(*TARGETS, metadata=doc("Only content of this type.", "product"))
    status = Choice(
        *decide.STATUSES, load_default="open", metadata=doc("Only reports with this status.", "open")
    )


class ReportCaseView(Identified):
    """Reported content that waits for a decision, or has a decision."""

    example_id = demo_ids.REPORT_CASE

    target_type = Choice(*TARGETS, required=True, metadata=doc("Type of the content.", "product"))
    target_id = Uuid(required=True, metadata=doc("Id of the content.", demo_ids.PRODUCT))
    owner_id = Uuid(
        required=True,
        metadata=doc(
            "Author of the review, owner of the product's store, sender, or the person.", demo_ids.BUYER
        ),
    )
    status = Choice(*decide.STATUSES, required=True, metadata=doc("Status of the reports.", "open"))
    reports = StrictInteger(minimum=1, required=True, metadata=doc("Number of reports.", 3))
    counted_reports = StrictInteger(
        minimum=0,
        required=True,
        metadata=doc(f"Reports that count; {HIDING_REPORTS} hide a product or review.", 2),
    )
    hidden_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the automatic hiding; null before.", None)
    )
    opened_at = Timestamp(required=True, metadata=doc("Time of the first report.", PLACED_AT))
    last_reported_at = Timestamp(required=True, metadata=doc("Time of the latest report.", PLACED_AT))
    decided_by = Uuid(required=True, allow_none=True, metadata=doc("Officer who decided; null before.", None))
    decided_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the decision; null before.", None)
    )
    decision_reason = fields.String(
        required=True, allow_none=True, metadata=doc("Reason of the decision; null before.", None)
    )


class StaffReport(ReportView):
    """A report for staff."""

    reporter_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Id of the reporter; null for a report by the service.", demo_ids.BUYER),
    )
    counted = fields.Boolean(
        required=True, metadata=doc("Whether the report counts towards the automatic hiding.", True)
    )


class ReportedMessage(Created):
    """A message of the conversation with the reported message."""

    example_id = demo_ids.MESSAGE

    sender = Choice(*SIDES, required=True, metadata=doc("The party that sent the message.", "buyer"))
    body = fields.String(required=True, metadata=doc("The text.", "Is the lamp still available?"))


class ReportCaseDetail(ReportCaseView):
    """Reported content with its reports."""

    latest_reports = fields.List(
        fields.Nested(StaffReport),
        required=True,
        metadata=doc(f"The latest reports, at most {queries.MAX_SHOWN_REPORTS}."),
    )
    reports_by_reason = fields.Dict(
        keys=fields.String(),
        values=StrictInteger(minimum=1),
        required=True,
        metadata=doc("Numbers of reports by reason.", {"counterfeit": 2, "scam": 1}),
    )
    messages = fields.List(
        fields.Nested(ReportedMessage),
        required=True,
        metadata=doc(
            f"The reported message last, with the messages before it, at most {CONTEXT_MESSAGES}.", []
        ),
    )


class DecideReports(Schema):
    """A decision about all reports of the content."""

    outcome = Choice(
        decide.UPHELD,
        decide.DISMISSED,
        required=True,
        metadata=doc("`upheld` removes the content; `dismissed` shows hidden content again.", "dismissed"),
    )
    reason = Text(
        min_length=10,
        max_length=500,
        required=True,
        metadata=doc("Reason, for the audit trail and the vendor.", "The seller has shown the receipt."),
    )
