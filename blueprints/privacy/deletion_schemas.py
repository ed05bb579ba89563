"""Schemas of the deletion of accounts, and of open requests about personal data."""

from marshmallow import fields

from blueprints.http.field_docs import OTHER_ID, doc
from blueprints.http.fields import Choice, CursorQuery, MinorAmount, Schema, Text, Timestamp, Uuid
from marketplace.kernel import demo_ids
from marketplace.privacy import deletion, requests

_REQUESTED_AT = "2035-03-05T10:00:00Z"


class RequestDeletion(Schema):
    """A request to delete the own account."""

    reason = Text(max_length=1000, metadata=doc("Your reason, if you want to tell us.", "I have graduated."))


class DeletionView(Schema):
    """A request to delete an account, with the money that the person can still cash out."""

    id = Uuid(required=True, metadata=doc("Request.", OTHER_ID))
    status = Choice(*deletion.STATUSES, required=True, metadata=doc("State of the request.", "pending"))
    requested_at = Timestamp(required=True, metadata=doc("Time of the request.", _REQUESTED_AT))
    grace_ends_at = Timestamp(required=True, metadata=doc("End of the grace period.", "2035-04-04T10:00:00Z"))
    ended_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time of the cancellation or of the erasure; null while pending.", None),
    )
    wallet_minor = MinorAmount(
        required=True, metadata=doc("Balance of the wallet. Cash out with `POST /api/wallet/cash-outs`.", 0)
    )
    payable_minor = MinorAmount(
        required=True, metadata=doc("Sales to pay out. Withdraw with `POST /api/payouts/dispatch`.", 0)
    )


class OpenRequestQuery(CursorQuery):
    """The page of open requests."""

    kind = Choice(*requests.KINDS, load_default=None, metadata=doc("Only requests of this kind.", "deletion"))


class OpenRequestView(Schema):
    """An open request about personal data, with its due date."""

    id = Uuid(required=True, metadata=doc("Request.", OTHER_ID))
    kind = Choice(*requests.KINDS, required=True, metadata=doc("Kind of the request.", "deletion"))
    user_id = Uuid(required=True, metadata=doc("Person.", demo_ids.STUDENT))
    status = fields.String(required=True, metadata=doc("State of the request.", "pending"))
    requested_at = Timestamp(required=True, metadata=doc("Time of the request.", _REQUESTED_AT))
    started_at = Timestamp(
        required=True,
        metadata=doc("Start of the clock: the end of the grace period, or the request.", _REQUESTED_AT),
    )
    due_at = Timestamp(required=True, metadata=doc("Latest time of the answer.", "2035-04-04T10:00:00Z"))
    is_overdue = fields.Boolean(required=True, metadata=doc("Whether the due time has passed.", False))
