"""Schemas of the service objectives and of page timings."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, Schema, StrictInteger, Timestamp
from marketplace.health.budgets import BUDGET_STATES
from marketplace.health.objectives import OBJECTIVES

_MAX_MILLISECONDS = 600_000


class BurnRatesView(Schema):
    """Burn rates by window: how many times faster than allowed the budget burns. 0 without events."""

    five_minutes = fields.Float(required=True, metadata=doc("Five minutes.", 0.4))
    half_hour = fields.Float(required=True, metadata=doc("30 minutes.", 0.4))
    hour = fields.Float(required=True, metadata=doc("An hour.", 0.3))
    six_hours = fields.Float(required=True, metadata=doc("Six hours.", 0.2))
    three_days = fields.Float(required=True, metadata=doc("Three days.", 0.1))


class BudgetPeriodView(Schema):
    """The events of a day or an hour."""

    starts_at = Timestamp(
        required=True, metadata=doc("Start of the period. Days are in UTC.", "2026-11-20T00:00:00Z")
    )
    total = fields.Integer(required=True, metadata=doc("Events of the period.", 18_240))
    bad = fields.Integer(required=True, metadata=doc("Events that missed the target.", 2))
    burn_rate = fields.Float(required=True, metadata=doc("Burn rate of the period.", 0.11))
    budget_left = fields.Float(
        required=True,
        metadata=doc("Fraction of the window's budget that was left after the period.", 0.98),
    )


class ObjectiveView(Schema):
    """A service objective with the state of its error budget."""

    name = Choice(*OBJECTIVES, required=True, metadata=doc("Key of the objective.", "availability"))
    title = fields.String(
        required=True, metadata=doc("Name for people.", "Availability of storefront and checkout")
    )
    target = fields.Float(required=True, metadata=doc("Fraction of the events that must be good.", 0.999))
    window_days = fields.Integer(required=True, metadata=doc("Window of the target in days.", 30))
    threshold_ms = fields.Integer(
        required=True,
        allow_none=True,
        metadata=doc("Longest duration of a good event; null without a latency.", 250),
    )
    good = fields.Integer(required=True, metadata=doc("Good events of the window.", 547_190))
    bad = fields.Integer(required=True, metadata=doc("Events that missed the target.", 10))
    attained = fields.Float(
        required=True, allow_none=True, metadata=doc("Fraction of good events; null without events.", 0.99998)
    )
    budget_left = fields.Float(
        required=True, metadata=doc("Fraction of the error budget that is left; negative if overspent.", 0.98)
    )
    state = Choice(*BUDGET_STATES, required=True, metadata=doc("State of the budget.", "green"))
    burn_rates = fields.Nested(BurnRatesView, required=True, metadata=doc("Burn rates by window."))
    days = fields.List(
        fields.Nested(BudgetPeriodView),
        required=True,
        metadata=doc("Days with events of the last 30 days."),
    )
    hours = fields.List(
        fields.Nested(BudgetPeriodView),
        required=True,
        metadata=doc("Hours with events of the last 24 hours."),
    )


class PageTiming(Schema):
    """Timings of a page, as a browser measured them."""

    largest_contentful_paint_ms = StrictInteger(
        minimum=0,
        maximum=_MAX_MILLISECONDS,
        metadata=doc("Largest contentful paint in milliseconds.", 1_340),
    )
    interaction_to_next_paint_ms = StrictInteger(
        minimum=0,
        maximum=_MAX_MILLISECONDS,
        metadata=doc("Interaction to next paint in milliseconds.", 84),
    )


class PageTimingReceipt(Schema):
    """The acknowledgement of page timings."""

    recorded = fields.Integer(required=True, metadata=doc("Number of recorded timings.", 2))
