"""Schemas of erasures."""

from typing import Any

from marshmallow import fields, validate

from blueprints.http.field_docs import OTHER_ID, doc
from blueprints.http.fields import Choice, MinorAmount, Schema, StrictInteger, Timestamp, Uuid
from marketplace.kernel import demo_ids
from marketplace.privacy import blockers, erasure
from marketplace.privacy.rules import OnErasure

_HASH = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
_AT = "2035-03-05T10:00:00Z"


class MakeErasurePlan(Schema):
    """The person of a plan."""

    user_id = Uuid(required=True, metadata=doc("Person to erase.", demo_ids.STUDENT))


class PlannedTable(Schema):
    """The person's rows of a table, and their treatment."""

    table = fields.String(required=True, metadata=doc("Table.", "orders"))
    area = fields.String(required=True, metadata=doc("Part of the data.", "orders"))
    action = Choice(
        *(str(action) for action in OnErasure),
        required=True,
        metadata=doc("`erase` deletes rows, `anonymise` and `retain` keep rows of a pseudonym.", "retain"),
    )
    rows = StrictInteger(minimum=0, required=True, metadata=doc("Number of rows.", 12))
    cleared_columns = fields.List(
        fields.String(),
        required=True,
        data_key="clearedColumns",
        attribute="clearedColumns",
        metadata=doc("Columns whose values are removed from kept rows.", ["note", "shipping_address"]),
    )
    reason = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Reason to retain the rows; null for others.", "Records of payments must be kept."),
    )
    retain_until = fields.String(
        required=True,
        allow_none=True,
        data_key="retainUntil",
        attribute="retainUntil",
        metadata=doc("Last day of the retention; null for others.", "2042-03-03"),
    )


class ErasureBlocker(Schema):
    """A reason that blocks an erasure."""

    kind = Choice(*blockers.BLOCKERS, required=True, metadata=doc("Kind of the blocker.", "open_orders"))
    count = StrictInteger(minimum=0, required=True, metadata=doc("Number of cases.", 1))
    amount_minor = MinorAmount(
        required=True,
        allow_none=True,
        attribute="amountMinor",
        metadata=doc("Money in kobo; null for cases without money.", None),
    )
    detail = fields.String(
        required=True, metadata=doc("Next step.", "Open orders: 1. Complete or cancel the orders first.")
    )


class ErasurePlanView(Schema):
    """A plan of an erasure."""

    plan_id = Uuid(required=True, attribute="id", metadata=doc("Plan.", OTHER_ID))
    user_id = Uuid(required=True, metadata=doc("Person.", demo_ids.STUDENT))
    hash = fields.String(
        required=True, attribute="content_hash", metadata=doc("Hash to send with the execution.", _HASH)
    )
    tables = fields.List(fields.Nested(PlannedTable), required=True, metadata=doc("Rows by table."))
    blockers = fields.List(
        fields.Nested(ErasureBlocker),
        required=True,
        metadata=doc("Reasons that block the erasure; empty if the plan can be executed.", []),
    )
    created_at = Timestamp(required=True, metadata=doc("Time of the plan.", _AT))


class ExecuteErasure(Schema):
    """A plan to execute."""

    plan_id = Uuid(required=True, metadata=doc("Plan.", OTHER_ID))
    hash = fields.String(
        required=True,
        validate=validate.Regexp("^[0-9a-f]{64}$", error="Must be 64 hex digits."),
        metadata=doc("Hash of the plan that you checked.", _HASH),
    )


class ErasureExecutionView(Schema):
    """An erasure with its progress."""

    execution_id = Uuid(required=True, attribute="id", metadata=doc("Execution.", OTHER_ID))
    plan_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Plan; null for the repetition after a restored backup.", OTHER_ID),
    )
    user_id = Uuid(required=True, metadata=doc("Pseudonym that stays in retained rows.", demo_ids.STUDENT))
    status = Choice(*erasure.STATUSES, required=True, metadata=doc("State of the erasure.", "running"))
    erased_rows = fields.Dict(
        keys=fields.String(),
        values=StrictInteger(minimum=0),
        required=True,
        metadata=doc("Deleted and cleared rows so far, by table.", {"addresses": 2}),
    )
    receipt: fields.Field[Any] = fields.Dict(
        required=True,
        allow_none=True,
        metadata=doc("Signed receipt to send to the person; null while the erasure is running.", None),
    )
    started_at = Timestamp(required=True, metadata=doc("Start of the erasure.", _AT))
    finished_at = Timestamp(
        required=True, allow_none=True, metadata=doc("End of the erasure; null while running.", None)
    )


class SigningKeyView(Schema):
    """The public key of receipts and anchors."""

    key_id = fields.String(required=True, metadata=doc("Id of the key.", "3f1b0d5c9e7a2468"))
    algorithm = fields.String(required=True, metadata=doc("Algorithm of the signatures.", "Ed25519"))
    public_key = fields.String(
        required=True,
        metadata=doc(
            "Key in PEM format.",
            "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n",
        ),
    )
