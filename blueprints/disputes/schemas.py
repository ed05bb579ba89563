"""Schemas of disputes and rulings."""

from functools import partial

from marshmallow import fields

from blueprints.http.field_docs import PLACED_AT, doc
from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    Created,
    CursorQuery,
    Revised,
    Schema,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from marketplace.disputes import appeals, cases, offers, queries, returns, rulings, states
from marketplace.kernel import demo_ids

MAX_MINOR = 1_000_000_000_000
_amount = partial(StrictInteger, minimum=1, maximum=MAX_MINOR)
_count = partial(StrictInteger, minimum=0, required=True)
_text = partial(Text, min_length=10, max_length=cases.MAX_TEXT_LENGTH)


class OpenDispute(Schema):
    """A new dispute about an order."""

    example_omits = frozenset({"claimed_minor"})

    order_id = Uuid(required=True, metadata=doc("Order that you bought or sold.", demo_ids.DISPUTABLE_ORDER))
    reason = Choice(*cases.REASONS, required=True, metadata=doc("Reason of the dispute.", "not_received"))
    description = _text(
        required=True, metadata=doc("What happened.", "The vendor marked it as shipped. It never came.")
    )
    desired_outcome = Choice(
        *cases.DESIRED_OUTCOMES, required=True, metadata=doc("The outcome that you want.", cases.REFUND)
    )
    claimed_minor = _amount(metadata=doc("Claimed amount in kobo. Required for `partial_refund`.", 250_000))
    item_ids = UniqueList(
        Uuid(),
        max_length=100,
        load_default=list,
        metadata=doc("Products of the order that the dispute is about. Empty means all.", []),
    )


class DisputeQuery(CursorQuery):
    """Filters of disputes."""

    status = Choice(
        *queries.STATUS_FILTERS,
        metadata=doc(
            "Only disputes with this status. `unresolved` are all that are not over.", queries.UNRESOLVED
        ),
    )


class DisputeView(Revised):
    """A dispute."""

    example_id = demo_ids.DISPUTE

    number = fields.String(required=True, metadata=doc("Number for people.", "D-100001"))
    order_id = Uuid(required=True, metadata=doc("Order of the dispute.", demo_ids.DISPUTABLE_ORDER))
    order_number = fields.String(required=True, metadata=doc("Number of the order.", "CM-100006"))
    opened_by = Choice(
        "buyer",
        "vendor",
        "system",
        required=True,
        metadata=doc("Side that opened the dispute; `system` for a silent buyer.", "buyer"),
    )
    reason = Choice(*cases.REASONS, required=True, metadata=doc("Reason of the dispute.", "not_received"))
    description = fields.String(
        required=True, metadata=doc("What happened.", "The vendor marked it as shipped. It never came.")
    )
    desired_outcome = Choice(
        *cases.DESIRED_OUTCOMES,
        required=True,
        metadata=doc("The outcome that the opener wants.", cases.REFUND),
    )
    claimed_minor = _amount(
        required=True, allow_none=True, metadata=doc("Claimed amount in kobo; null for all.", None)
    )
    item_ids = fields.List(
        Uuid(), required=True, metadata=doc("Products that the dispute is about. Empty means all.", [])
    )
    status = Choice(
        *sorted(states.DISPUTE.states), required=True, metadata=doc("Status of the dispute.", "under_review")
    )
    response_due_at = Timestamp(
        required=True, metadata=doc("Time by which the other side should respond.", PLACED_AT)
    )
    finding_due_at = Timestamp(required=True, metadata=doc("Target time of the first finding.", PLACED_AT))
    evidence_due_at = Timestamp(
        required=True, metadata=doc("Time at which the evidence of both sides is sealed.", PLACED_AT)
    )
    ruling_due_at = Timestamp(required=True, metadata=doc("Target time of the ruling.", PLACED_AT))
    response = fields.String(
        required=True, allow_none=True, metadata=doc("Response of the other side; null before.", None)
    )
    responded_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the first response; null before.", None)
    )
    response_missed_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time at which the response was missed, which counts against that side; or null.", None),
    )
    has_chargeback = fields.Boolean(
        required=True, metadata=doc("Whether the buyer\u2019s bank has disputed the payment.", False)
    )
    finding = fields.String(
        required=True, allow_none=True, metadata=doc("First finding of staff; null before.", None)
    )
    finding_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the first finding; null before.", None)
    )
    buyer_minor = StrictInteger(
        minimum=0,
        required=True,
        allow_none=True,
        metadata=doc("Refund in kobo; null before the ruling.", None),
    )
    vendor_minor = StrictInteger(
        minimum=0,
        required=True,
        allow_none=True,
        metadata=doc("Released amount in kobo, with the platform\u2019s share; null before.", None),
    )
    rationale = fields.String(
        required=True, allow_none=True, metadata=doc("Reasons of the ruling; null before.", None)
    )
    resolved_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the ruling or withdrawal; null before.", None)
    )


class TimelineEntry(Schema):
    """An entry of the timeline."""

    event = fields.String(required=True, metadata=doc("What happened. More events can follow.", "opened"))
    actor = fields.String(required=True, metadata=doc("Role of the actor.", "buyer"))
    note = fields.String(
        required=True, allow_none=True, metadata=doc("Details; null without any.", "not_received")
    )
    at = Timestamp(required=True, metadata=doc("Time of the event.", PLACED_AT))


class OfferView(Created):
    """A settlement that a party offered."""

    example_id = demo_ids.DISPUTE_OFFER

    offered_by = Choice("buyer", "vendor", required=True, metadata=doc("Side that made the offer.", "vendor"))
    buyer_amount_minor = StrictInteger(
        minimum=0, required=True, attribute="buyer_minor", metadata=doc("Refund in kobo.", 100_000)
    )
    note = fields.String(
        required=True, allow_none=True, metadata=doc("Words of the side; null without any.", None)
    )
    status = Choice(
        *offers.OFFER_STATUSES,
        required=True,
        metadata=doc("`replaced` by a later offer. A pending offer ends at `expiresAt`.", offers.PENDING),
    )
    expires_at = Timestamp(required=True, metadata=doc("End of the offer.", PLACED_AT))


class MakeOffer(Schema):
    """A settlement."""

    buyer_amount_minor = StrictInteger(
        minimum=0,
        maximum=MAX_MINOR,
        required=True,
        metadata=doc("Refund in kobo. The rest of the escrow is released to the vendor.", 100_000),
    )
    note = Text(
        max_length=offers.MAX_NOTE_LENGTH, metadata=doc("Words to the other side.", "Let us share it.")
    )


class ReturnView(Schema):
    """A return of goods that a ruling requires."""

    status = Choice(
        *states.RETURN_STATUSES,
        required=True,
        metadata=doc("`cancelled` by another end of the dispute.", states.RETURN_REQUESTED),
    )
    send_due_at = Timestamp(required=True, metadata=doc("Time by which the buyer should send.", PLACED_AT))
    tracking_note = fields.String(
        required=True, allow_none=True, metadata=doc("Words of the buyer; null without any.", None)
    )
    sent_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time when the buyer sent; null before.", None)
    )
    received_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the receipt; null before.", None)
    )


class RulingAppealView(Schema):
    """An appeal against the ruling."""

    appealed_by = Choice("buyer", "vendor", required=True, metadata=doc("Side that appealed.", "buyer"))
    reason = fields.String(
        required=True, metadata=doc("Reasons of the side.", "The scratch covers half of the screen.")
    )
    status = Choice(
        *appeals.APPEAL_STATUSES, required=True, metadata=doc("Status of the appeal.", appeals.PENDING)
    )
    decision_due_at = Timestamp(required=True, metadata=doc("Target time of the decision.", PLACED_AT))
    amount_minor = _amount(
        required=True,
        allow_none=True,
        metadata=doc("Amount in kobo that the side receives in addition; null if none.", None),
    )
    rationale = fields.String(
        required=True, allow_none=True, metadata=doc("Reasons of the decision; null before.", None)
    )
    decided_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the decision; null before.", None)
    )


class SideHistoryView(Schema):
    """The earlier disputes of a side."""

    side = Choice("buyer", "vendor", required=True, metadata=doc("The side.", "buyer"))
    disputes = _count(metadata=doc("Other disputes of the person on this side.", 3))
    opened = _count(metadata=doc("Disputes that the person opened.", 2))
    lost = _count(metadata=doc("Disputes that ended with money for the other side.", 1))
    missed = _count(metadata=doc("Disputes without a response in time.", 0))
    chargebacks = _count(metadata=doc("Disputes with a chargeback.", 0))


class DisputeDetail(DisputeView):
    """A dispute with its timeline, offers, return and appeal."""

    offers = fields.List(
        fields.Nested(OfferView), required=True, metadata=doc("Settlement offers from the first.")
    )
    goods_return = fields.Nested(
        ReturnView,
        required=True,
        allow_none=True,
        data_key="return",
        metadata=doc("Return of the goods; null if no ruling required it.", None),
    )
    risk_notes = fields.List(
        fields.Nested(SideHistoryView),
        required=True,
        allow_none=True,
        metadata=doc("History of both sides for staff; null for the parties.", None),
    )
    appeal = fields.Nested(
        RulingAppealView, required=True, allow_none=True, metadata=doc("Appeal; null without.", None)
    )
    timeline = fields.List(
        fields.Nested(TimelineEntry), required=True, metadata=doc("Events of the dispute from the first.")
    )


class RespondToDispute(Schema):
    """A response of the other side."""

    response = _text(required=True, metadata=doc("Your view.", "I handed it to the hub on Monday at 10:00."))


class WriteFinding(Schema):
    """A first finding of staff."""

    finding = _text(
        required=True, metadata=doc("Text that both sides read.", "The hub has no record of the parcel.")
    )


class RuledItem(Schema):
    """Units of a product that a split refunds."""

    product_id = Uuid(required=True, metadata=doc("Product of the order.", demo_ids.PRODUCT))
    quantity = StrictInteger(minimum=1, maximum=1_000, required=True, metadata=doc("Number of units.", 1))


class RulingQuery(Schema):
    """Options of a ruling."""

    dry_run = BooleanParameter(
        data_key="dryRun",
        load_default=False,
        metadata=doc("True shows the ledger entries and changes nothing.", True),
    )


class RuleOnDispute(Schema):
    """A ruling."""

    example_omits = frozenset({"items"})

    outcome = Choice(*states.OUTCOMES, required=True, metadata=doc("Outcome of the ruling.", states.SPLIT))
    buyer_amount_minor = _amount(
        metadata=doc("Refund of a split in kobo. By default the price of the items.", 100_000)
    )
    items = fields.List(
        fields.Nested(RuledItem), metadata=doc("Units that a split refunds, each at most once.", [])
    )
    return_required = StrictBoolean(
        load_default=False,
        metadata=doc("True moves nothing before the vendor has received the goods.", False),
    )
    rationale = _text(
        required=True,
        metadata=doc(
            "Reasons, which both sides read.", "The item has a scratch that the listing did not show."
        ),
    )


class MarkReturnSent(Schema):
    """A note about goods that the buyer sent back."""

    tracking_note = Text(
        max_length=returns.MAX_NOTE_LENGTH,
        metadata=doc("Where the vendor finds the goods.", "Left at the Moremi hub, shelf 4."),
    )


class AppealRuling(Schema):
    """An appeal."""

    reason = _text(required=True, metadata=doc("Your reasons.", "The scratch covers half of the screen."))


class DecideRulingAppeal(Schema):
    """A decision about an appeal."""

    decision = Choice(
        *appeals.DECISIONS, required=True, metadata=doc("`rejected` lets the ruling stand.", appeals.GRANTED)
    )
    amount_minor = _amount(
        metadata=doc("Amount in kobo for the appealing side. Required for `granted`.", 50_000)
    )
    rationale = _text(
        required=True, metadata=doc("Reasons, which both sides read.", "The picture shows the scratch.")
    )


class AppealDecisionView(Schema):
    """A decision about an appeal that was executed, or waits for a second officer."""

    dispute_id = Uuid(required=True, metadata=doc("Dispute.", demo_ids.DISPUTE))
    state = Choice(
        rulings.EXECUTED,
        rulings.AWAITING_SECOND_OFFICER,
        required=True,
        metadata=doc("Only `executed` has decided the appeal.", rulings.EXECUTED),
    )
    decision = Choice(*appeals.DECISIONS, required=True, metadata=doc("The decision.", appeals.GRANTED))
    amount_minor = _amount(
        required=True, allow_none=True, metadata=doc("Amount in kobo; null for a rejection.", 50_000)
    )


class RulingEntryView(Schema):
    """A ledger entry."""

    account = fields.String(
        required=True, metadata=doc("Account, with the owner\u2019s id if any.", "escrow")
    )
    direction = Choice("debit", "credit", required=True, metadata=doc("Side of the entry.", "debit"))
    amount_minor = _amount(required=True, metadata=doc("Amount in kobo.", 250_000))


class RulingView(Schema):
    """A ruling that was executed, previewed, or waits for a second officer or a return."""

    dispute_id = Uuid(required=True, metadata=doc("Dispute.", demo_ids.DISPUTE))
    state = Choice(
        *rulings.RULING_STATES,
        required=True,
        metadata=doc("Only `executed` has moved money. `previewed` is a dry run.", rulings.EXECUTED),
    )
    outcome = Choice(*states.OUTCOMES, required=True, metadata=doc("Outcome of the ruling.", states.SPLIT))
    buyer_minor = StrictInteger(minimum=0, required=True, metadata=doc("Refund in kobo.", 100_000))
    vendor_minor = StrictInteger(
        minimum=0,
        required=True,
        metadata=doc("Released amount in kobo, with the platform\u2019s share.", 150_000),
    )
    entries = fields.List(
        fields.Nested(RulingEntryView),
        required=True,
        metadata=doc("Ledger entries. Empty while the ruling waits."),
    )
