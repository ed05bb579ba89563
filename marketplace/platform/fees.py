"""The fees and limits that officers may change, and within which bounds."""

from dataclasses import dataclass

_MAX_FEE_MINOR = 1_000_000


@dataclass(frozen=True)
class FeeSetting:
    """A platform setting that is a number: what it is, and its least and greatest value."""

    minimum: int
    maximum: int
    meaning: str


FEES: dict[str, FeeSetting] = {
    "commission_bps": FeeSetting(
        0, 5_000, "The platform's commission on items, in basis points, where the category has none"
    ),
    "service_fee_minor": FeeSetting(0, _MAX_FEE_MINOR, "The service fee on an order, in kobo"),
    "delivery_fee_minor": FeeSetting(
        0, _MAX_FEE_MINOR, "The delivery fee on an order that is delivered, in kobo"
    ),
    "minimum_payout_minor": FeeSetting(
        # Below it the gateway's own fee would be a large part of what is paid.
        10_000,
        100_000_000,
        "The least that a vendor or a wallet is paid out at once, in kobo",
    ),
}
# A category's own commission keeps to the bounds of the platform's.
COMMISSION = FEES["commission_bps"]
