"""What a change of fees does to an order, shown on one."""

from collections.abc import Mapping
from typing import Any

from marketplace.orders.pricing import Fees, OrderLine, price_order, split_escrow

SAMPLE_PRICE_MINOR = 1_000_000
SAMPLE_DESCRIPTION = "One item of NGN 10,000.00, delivered"


def sample_order(settings: Mapping[str, Any], *, commission_bps: int | None = None) -> dict[str, int]:
    """Price a sample order as the platform would, and tell who gets what of it, in kobo.

    :param settings: the platform's
    :param commission_bps: of the item's category; none for the platform's own
    """
    fees = Fees(
        commission_bps=settings["commission_bps"],
        service_fee_minor=settings["service_fee_minor"],
        delivery_fee_minor=settings["delivery_fee_minor"],
    )
    line = OrderLine(SAMPLE_PRICE_MINOR, 1, fees.commission_bps if commission_bps is None else commission_bps)
    price = price_order([line], fees=fees, is_delivery=True)
    release = split_escrow(price, commission_minor=line.commission_minor)
    return {
        "subtotalMinor": price.subtotal_minor,
        "deliveryFeeMinor": price.delivery_fee_minor,
        "serviceFeeMinor": price.service_fee_minor,
        "totalMinor": price.total_minor,
        "commissionMinor": line.commission_minor,
        "vendorMinor": release.vendor_minor,
        "platformMinor": release.platform_minor,
    }


def compare_sample_orders(before: dict[str, int], after: dict[str, int]) -> dict[str, Any]:
    """Show a sample order before a change and after it."""
    return {"sampleOrder": {"description": SAMPLE_DESCRIPTION, "before": before, "after": after}}
