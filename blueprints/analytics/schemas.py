"""Schemas of the figures of a store."""

from datetime import date

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, MinorAmount, Schema, StrictInteger, Uuid
from marketplace.analytics import report
from marketplace.kernel.errors import ValidationError

_FIRST_DAY, _LAST_DAY = "2026-09-01", "2026-09-30"


class AnalyticsQuery(Schema):
    """The period in days in Nigeria, both included, and the interval of the series."""

    from_ = fields.Date(
        data_key="from",
        load_default=None,
        metadata=doc(f"First day; {report.DEFAULT_DAYS} days up to `to` by default.", _FIRST_DAY),
    )
    to = fields.Date(load_default=None, metadata=doc("Last day; today by default.", _LAST_DAY))
    interval = Choice(
        *report.INTERVALS,
        load_default="day",
        metadata=doc("Interval of the series. Weeks begin on Monday.", "week"),
    )
    format = Choice(
        "json",
        "csv",
        load_default=None,
        metadata=doc("`csv` returns the series as a file; the Accept header is the default.", "json"),
    )

    @staticmethod
    def check_period(starts: date, ends: date) -> None:
        """Check the period after the defaults are known.

        :raises ValidationError: the period ends before its start, or is too long
        """
        if starts > ends:
            raise ValidationError.of("from", "Must not be after `to`.")
        if (ends - starts).days >= report.MAX_DAYS:
            raise ValidationError.of("from", f"The period can have at most {report.MAX_DAYS} days.")


class StoreFigures(Schema):
    """Figures of a period. Sales count on the day of the payment, refunds and disputes on the day of their order."""

    orders = StrictInteger(minimum=0, required=True, metadata=doc("Paid orders.", 12))
    units = StrictInteger(minimum=0, required=True, metadata=doc("Sold units.", 15))
    revenue_minor = MinorAmount(
        required=True, metadata=doc("Items and delivery of the paid orders, in kobo.", 9_450_000)
    )
    average_order_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata=doc("Revenue per order in kobo; null without orders.", 787_500),
    )
    views = StrictInteger(minimum=0, required=True, metadata=doc("Views of the listings.", 640))
    cart_adds = StrictInteger(
        minimum=0, required=True, metadata=doc("Times that a listing went into a cart.", 41)
    )
    conversion = fields.Float(
        required=True, allow_none=True, metadata=doc("Orders per view; null without views.", 0.0188)
    )
    refunded_orders = StrictInteger(
        minimum=0, required=True, metadata=doc("Orders with a refund, full or partial.", 1)
    )
    refunded_minor = MinorAmount(
        required=True, metadata=doc("Refunded kobo, also after the release.", 250_000)
    )
    disputed_orders = StrictInteger(minimum=0, required=True, metadata=doc("Orders with a dispute.", 0))
    lost_disputes = StrictInteger(
        minimum=0, required=True, metadata=doc("Disputed orders with a refund, full or partial.", 0)
    )


class PeriodFigures(StoreFigures):
    """Figures of a period with the buyers."""

    buyers = StrictInteger(minimum=0, required=True, metadata=doc("Different buyers.", 10))
    repeat_buyers = StrictInteger(
        minimum=0,
        required=True,
        metadata=doc("Buyers with at least two orders up to the end of the period.", 3),
    )


class SeriesFigures(StoreFigures):
    """Figures of a day, week or month of the period."""

    starts = fields.Date(data_key="from", required=True, metadata=doc("First day.", _FIRST_DAY))
    ends = fields.Date(data_key="to", required=True, metadata=doc("Last day.", "2026-09-06"))


class TopProduct(Schema):
    """A product with the highest revenue."""

    product_id = Uuid(required=True)
    title = fields.String(required=True)
    units = StrictInteger(minimum=0, required=True, metadata=doc("Sold units.", 15))
    revenue_minor = MinorAmount(required=True, metadata=doc("Revenue of the items in kobo.", 2_100_000))
    views = StrictInteger(minimum=0, required=True, metadata=doc("Views of the listing.", 120))


class UnmetSearch(Schema):
    """A search in the store's categories without results."""

    query = fields.String(required=True, metadata=doc("Searched words.", "casio fx 991"))
    count = StrictInteger(minimum=1, required=True, metadata=doc("Number of searches, at least 3.", 7))


class StoreAnalytics(Schema):
    """The figures of a store, the previous period of the same length, and the series with all intervals."""

    starts = fields.Date(data_key="from", required=True, metadata=doc("First day.", _FIRST_DAY))
    ends = fields.Date(data_key="to", required=True, metadata=doc("Last day.", _LAST_DAY))
    interval = Choice(*report.INTERVALS, required=True, metadata=doc("Interval of the series.", "week"))
    totals = fields.Nested(PeriodFigures, required=True, metadata=doc("Figures of the period."))
    previous_starts = fields.Date(
        data_key="previousFrom",
        required=True,
        metadata=doc("First day of the previous period.", "2026-08-02"),
    )
    previous_ends = fields.Date(
        data_key="previousTo", required=True, metadata=doc("Last day of the previous period.", "2026-08-31")
    )
    previous = fields.Nested(PeriodFigures, required=True, metadata=doc("Figures of the previous period."))
    series = fields.List(
        fields.Nested(SeriesFigures), required=True, metadata=doc("Figures by interval, zeros included.")
    )
    top_products = fields.List(
        fields.Nested(TopProduct),
        required=True,
        metadata=doc("Products with the highest revenue, at most 10."),
    )
    unmet_searches = fields.List(
        fields.Nested(UnmetSearch),
        required=True,
        metadata=doc("Searches in the store's categories that found nothing, at most 10."),
    )
