"""Schemas of referrals."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import MinorAmount, Schema, StrictInteger, Timestamp


class Referrals(Schema):
    """The caller's referral code, the rewards, and the results. Other people are only counted."""

    code = fields.String(
        required=True, metadata=doc("Code that newcomers enter at the sign-up.", "7C9E667974")
    )
    code_expires_at = Timestamp(
        required=True,
        metadata=doc("End of the code's validity. Issue a new code then.", "2027-03-02T09:30:00Z"),
    )
    newcomer_reward_minor = MinorAmount(
        required=True, metadata=doc("Reward of a newcomer who signs up with the code, in kobo.", 50_000)
    )
    referrer_reward_minor = MinorAmount(
        required=True, metadata=doc("The caller's reward for each newcomer, in kobo.", 100_000)
    )
    pending_count = StrictInteger(
        minimum=0, required=True, metadata=doc("Newcomers without a delivered order so far.", 1)
    )
    rewarded_count = StrictInteger(
        minimum=0, required=True, metadata=doc("Newcomers who earned the caller a reward.", 1)
    )
    earned_minor = MinorAmount(
        required=True, metadata=doc("Sum of the caller's rewards for newcomers, in kobo.", 100_000)
    )
