"""Schemas of the administration of people."""

from marshmallow import fields

from blueprints.http.field_docs import PLACED_AT, PROMOTION_END, STORE_NAME, doc
from blueprints.http.fields import (
    Choice,
    Created,
    CursorQuery,
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
from marketplace.applications import states as application_states
from marketplace.identity.permissions import STAFF_ROLES
from marketplace.identity.queries import ACCOUNT_STATUSES, ROLES
from marketplace.kernel import demo_ids
from marketplace.notifications import devices
from marketplace.orders import states as order_states
from marketplace.people import account_status, appeals, own_status, queries


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


class PersonDecision(Identified):
    """A decision about the account of a person."""

    example_id = demo_ids.ACCOUNT_DECISION

    status = Choice(
        account_status.RESTRICTED,
        account_status.SUSPENDED,
        required=True,
        metadata=doc("Status that the decision set.", "suspended"),
    )
    reason = fields.String(
        required=True, metadata=doc("Reason, shown to the person.", "Repeated counterfeit listings")
    )
    decided_at = Timestamp(required=True, metadata=doc("Time of the decision.", PLACED_AT))
    decided_by = Uuid(required=True, metadata=doc("Officer who decided.", demo_ids.ADMIN))
    until = Timestamp(
        required=True, allow_none=True, metadata=doc("Planned end of the decision; null without one.", None)
    )
    ended_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Actual end; null for the current decision.", None)
    )
    ended_how = Choice(
        *account_status.ENDINGS,
        required=True,
        allow_none=True,
        metadata=doc("How the decision ended; null for the current decision.", None),
    )
    appeal_id = Uuid(
        required=True, allow_none=True, metadata=doc("Id of the appeal; null without one.", demo_ids.APPEAL)
    )
    appeal_status = Choice(
        *appeals.STATUSES,
        required=True,
        allow_none=True,
        metadata=doc("Status of the appeal; null without one.", "pending"),
    )


class PersonReports(Schema):
    """Numbers of reports about a person and the person's content, and of the person's own reports."""

    open_cases = StrictInteger(
        minimum=0, required=True, metadata=doc("Reported content that waits for a decision.", 1)
    )
    upheld_cases = StrictInteger(
        minimum=0, required=True, metadata=doc("Reported content that staff removed.", 0)
    )
    submitted = StrictInteger(minimum=0, required=True, metadata=doc("Reports by the person.", 2))
    last_reported_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time of the latest report; null without one.", PLACED_AT),
    )


class PersonDevice(Created):
    """A device of a person for push notifications, without the token."""

    example_id = demo_ids.DEVICE

    kind = Choice(*devices.KINDS, required=True, metadata=doc("Kind of the device.", devices.WEB_PUSH))
    name = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Label of the device; null without one.", "Firefox on Amara\u2019s laptop"),
    )
    last_seen_at = Timestamp(required=True, metadata=doc("Time of the latest registration.", PLACED_AT))


class PersonApplication(Created):
    """An application of a person to open a store."""

    example_id = demo_ids.APPLICATION

    status = Choice(
        *sorted(application_states.APPLICATION.states),
        required=True,
        metadata=doc("Status of the application.", application_states.APPROVED),
    )
    store_name = fields.String(required=True, metadata=doc("Public name of the store.", STORE_NAME))
    slug = fields.String(required=True)
    decided_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the decision; null before.", None)
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
    status_until = Timestamp(
        required=True, allow_none=True, metadata=doc("End of the status; null without a known end.", None)
    )
    decisions = fields.List(
        fields.Nested(PersonDecision),
        required=True,
        metadata=doc(f"The latest decisions about the account, at most {queries.LATEST_DECISIONS}."),
    )
    devices = fields.List(
        fields.Nested(PersonDevice),
        required=True,
        metadata=doc(f"Devices for push notifications, at most {devices.MAX_DEVICES}."),
    )
    applications = fields.List(
        fields.Nested(PersonApplication),
        required=True,
        metadata=doc(f"The latest vendor applications, at most {queries.LATEST_APPLICATIONS}."),
    )
    report_counts = fields.Nested(
        PersonReports, required=True, metadata=doc("Reports about and by the person.")
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


class BarAccount(Schema):
    """A restriction or suspension of an account."""

    reason = Text(
        **_REASON,
        required=True,
        metadata=doc("Reason, shown to the person.", "Several buyers reported counterfeit phones."),
    )
    until = Timestamp(
        metadata=doc("End of the decision; without an end, staff must reinstate the account.", PROMOTION_END)
    )


class ReinstateAccount(Schema):
    """The reason to end a restriction or suspension."""

    reason = Text(
        **_REASON, required=True, metadata=doc("Reason, for the audit trail.", "The receipts were genuine.")
    )


class AppealQuery(CursorQuery):
    """The status of the listed appeals."""

    status = Choice(
        *appeals.STATUSES,
        load_default=appeals.PENDING,
        metadata=doc("Only appeals with this status.", "pending"),
    )


class DecideAppeal(Schema):
    """A ruling on an appeal."""

    outcome = Choice(
        appeals.ACCEPTED,
        appeals.REJECTED,
        required=True,
        metadata=doc("`accepted` makes the account active.", "accepted"),
    )
    comment = Text(
        **_REASON, required=True, metadata=doc("Comment, shown to the person.", "The receipts were genuine.")
    )


class AppealView(Created):
    """An appeal for staff, with the decision."""

    example_id = demo_ids.APPEAL

    status = Choice(*appeals.STATUSES, required=True, metadata=doc("Status of the appeal.", "pending"))
    message = fields.String(
        required=True,
        metadata=doc("Message of the person.", "I have the receipts of all phones that I sold."),
    )
    decided_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the ruling; null without one.", None)
    )
    decided_by = Uuid(
        required=True, allow_none=True, metadata=doc("Officer who ruled; null without a ruling.", None)
    )
    comment = fields.String(
        required=True, allow_none=True, metadata=doc("Comment of the ruling; null without one.", None)
    )
    user_id = Uuid(required=True, metadata=doc("Id of the person.", demo_ids.BUYER))
    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Amara Okafor")
    )
    account_status = Choice(
        account_status.RESTRICTED,
        account_status.SUSPENDED,
        required=True,
        metadata=doc("Status that the decision set.", "suspended"),
    )
    reason = fields.String(
        required=True, metadata=doc("Reason of the decision.", "Repeated counterfeit listings")
    )
    restricted_at = Timestamp(required=True, metadata=doc("Time of the decision.", PLACED_AT))
    restricted_by = Uuid(required=True, metadata=doc("Officer who decided.", demo_ids.ADMIN))
    restricted_by_name = fields.String(
        required=True, allow_none=True, metadata=doc("Name of the officer.", "Bola Adebayo")
    )
    until = Timestamp(
        required=True, allow_none=True, metadata=doc("End of the decision; null without one.", None)
    )


class SubmitAppeal(Schema):
    """An appeal against the restriction or suspension of the own account."""

    message = Text(
        min_length=10,
        max_length=2_000,
        required=True,
        metadata=doc("Message to the officer.", "I have the receipts of all phones that I sold."),
    )


class OwnAppealView(Schema):
    """Your appeal against the current decision."""

    status = Choice(*appeals.STATUSES, required=True, metadata=doc("Status of the appeal.", "pending"))
    created_at = Timestamp(required=True)
    decided_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the ruling; null without one.", None)
    )
    comment = fields.String(
        required=True, allow_none=True, metadata=doc("Comment of the ruling; null without one.", None)
    )


class OwnAccountStatus(Schema):
    """The status of your account."""

    status = Choice(*ACCOUNT_STATUSES, required=True, metadata=doc("Status of the account.", "suspended"))
    reason = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Reason of the decision; null for an active account.", "Repeated counterfeit listings"),
    )
    since = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the decision; null without one.", PLACED_AT)
    )
    until = Timestamp(
        required=True, allow_none=True, metadata=doc("End of the decision; null without a known end.", None)
    )
    allowed = fields.List(
        Choice(*own_status.ALLOWED),
        required=True,
        allow_none=True,
        metadata=doc(
            "Functions that the account can use; null for an active account, which can use all functions.",
            ["profile", "paid_orders", "notifications", "appeal"],
        ),
    )
    can_appeal = fields.Boolean(required=True, metadata=doc("Whether you can appeal now.", True))
    appeal = fields.Nested(
        OwnAppealView, required=True, allow_none=True, metadata=doc("Your appeal; null without one.", None)
    )
