"""Fees and limits that officers may change, with the allowed ranges."""

from dataclasses import dataclass

_MAX_FEE_MINOR = 1_000_000
_MAX_REWARD_MINOR = 1_000_000


@dataclass(frozen=True)
class FeeSetting:
    """A numeric platform setting with its allowed range."""

    minimum: int
    maximum: int
    meaning: str


FEES: dict[str, FeeSetting] = {
    "commission_bps": FeeSetting(
        0,
        5_000,
        "The platform's commission on items in basis points, for categories without a rate of their own",
    ),
    "service_fee_minor": FeeSetting(0, _MAX_FEE_MINOR, "The service fee of an order, in kobo"),
    "delivery_fee_minor": FeeSetting(0, _MAX_FEE_MINOR, "The delivery fee of a delivered order, in kobo"),
    "minimum_payout_minor": FeeSetting(
        # The gateway's fee would be a large part of a smaller payout.
        10_000,
        100_000_000,
        "The minimum payout of a vendor or a wallet, in kobo",
    ),
    "referral_newcomer_minor": FeeSetting(
        0, _MAX_REWARD_MINOR, "The reward for signing up with a referral code, in kobo"
    ),
    "referral_referrer_minor": FeeSetting(
        0, _MAX_REWARD_MINOR, "The reward of the referrer for the newcomer's first delivered order, in kobo"
    ),
    "referral_monthly_cap": FeeSetting(
        0, 1_000, "The maximum number of newcomers, and of own rewards, of a referrer in 30 days"
    ),
    "referral_monthly_budget_minor": FeeSetting(
        0, 10_000_000_000, "The maximum of all referral rewards together in 30 days, in kobo"
    ),
}
# A category's commission has the same range.
COMMISSION = FEES["commission_bps"]
REFERRAL_TERMS = tuple(key for key in FEES if key.startswith("referral_"))
