"""Schemas of the administration of people."""

from marshmallow import fields

from blueprints.http.field_docs import PLACED_AT, STORE_NAME, doc
from blueprints.http.fields import (
    Choice,
    Created,
    Identified,
    MinorAmount,
    OffsetQuery,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
    sort_choice,
)
from marketplace.identity.permissions import STAFF_ROLES
from marketplace.identity.queries import ACCOUNT_STATUSES, ROLES
from marketplace.kernel import demo_ids
from marketplace.orders import states as order_states
from marketplace.people import queries


class PeopleQuery(OffsetQuery):
    """Filters of the list of people."""

    sort = sort_choice(queries.SORTS, default="created_at")
    text = SingleLineText(
        data_key="q",
        min_length=2,
        max_length=100,
        metadata=doc(
            "Parts of the name or e-mail address, or a whole phone number, order number or id.", "amara"
        ),
    )
    role = Choice(*ROLES, metadata=doc("Only people with this role.", "buyer"))
    staff_role = Choice(*STAFF_ROLES, metadata=doc("Only staff with this role.", "finance"))
    account_status = Choice(*ACCOUNT_STATUSES, metadata=doc("Only accounts with this status.", "active"))
    campus_id = Uuid(metadata=doc("Only people of this campus.", demo_ids.CAMPUS))


class PersonSummary(Created):
    """A person in the list of people."""

    example_id = demo_ids.BUYER

    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Amara Okafor")
    )
    email = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("E-mail address; null without one.", "buyer@north.example.edu"),
    )
    phone = fields.String(required=True, allow_none=True)
    role = Choice(*ROLES, required=True, metadata=doc("`buyer`, `vendor` or `staff`.", "buyer"))
    staff_role = Choice(
        *STAFF_ROLES,
        required=True,
        allow_none=True,
        metadata=doc("Role among the staff; null for other people.", None),
    )
    account_status = Choice(
        *ACCOUNT_STATUSES, required=True, metadata=doc("Status of the account.", "active")
    )
    campus_id = Uuid(required=True, allow_none=True)


class PersonStore(Identified):
    """The store of a person."""

    example_id = demo_ids.STORE

    display_name = fields.String(required=True, metadata=doc("Public name of the store.", STORE_NAME))
    slug = fields.String(required=True)
    status = Choice(
        "active", "suspended", "closed", required=True, metadata=doc("Status of the store.", "active")
    )
    verified = fields.Boolean(required=True, metadata=doc("Whether the store is verified.", True))
    completed_orders = StrictInteger(minimum=0, required=True, metadata=doc("Delivered orders.", 12))
    payable_minor = MinorAmount(
        required=True, metadata=doc("Kobo that the platform owes the store, after the release.", 955_000)
    )


class PersonOrder(Created):
    """An order of a person."""

    example_id = demo_ids.ORDER

    number = fields.String(required=True)
    status = Choice(
        *sorted(order_states.ORDER.states), required=True, metadata=doc("Status of the order.", "shipped")
    )
    total_minor = MinorAmount(required=True)
    as_role = Choice(
        "buyer", "vendor", required=True, metadata=doc("Whether the person bought or sold.", "buyer")
    )


class PersonView(PersonSummary):
    """A person for staff, with store, wallet and latest orders."""

    badges = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Badges that the platform awarded.", ["verified_student"]),
    )
    status_reason = fields.String(required=True, allow_none=True)
    appeal_status = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Status of an appeal against a restriction; null without an appeal.", None),
    )
    referral_code = fields.String(
        required=True, metadata=doc("Code with which others can name the person as referrer.", "7C9E667974")
    )
    updated_at = Timestamp(required=True, metadata=doc("Time of the last change.", PLACED_AT))
    wallet_minor = MinorAmount(required=True, metadata=doc("Balance of the wallet in kobo.", 25_000))
    debt_minor = MinorAmount(required=True, metadata=doc("Kobo that the person owes the platform.", 0))
    store = fields.Nested(
        PersonStore, required=True, allow_none=True, metadata=doc("Store of the person; null without one.")
    )
    orders_bought = StrictInteger(
        minimum=0, required=True, metadata=doc("Orders as buyer, in all states.", 4)
    )
    orders_sold = StrictInteger(minimum=0, required=True, metadata=doc("Orders as vendor, in all states.", 0))
    latest_orders = fields.List(
        fields.Nested(PersonOrder),
        required=True,
        metadata=doc(f"The latest orders as buyer or vendor, at most {queries.LATEST_ORDERS}."),
    )


_REASON = {"min_length": 10, "max_length": 500}


class GrantStaffRole(Schema):
    """The new staff role of a person."""

    staff_role = Choice(*STAFF_ROLES, required=True, metadata=doc("The new staff role.", "support"))
    reason = Text(
        **_REASON,
        required=True,
        metadata=doc("Reason, for the audit trail.", "Joins the support team in March."),
    )


class RevokeStaffRole(Schema):
    """The reason to take a person's staff role."""

    reason = Text(
        **_REASON, required=True, metadata=doc("Reason, for the audit trail.", "Left the support team.")
    )
