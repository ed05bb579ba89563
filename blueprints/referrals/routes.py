"""Routes of the caller's referral code and rewards."""

from blueprints.http import AUTHENTICATED, Context, ContractBlueprint, SharedLimit
from blueprints.referrals.schemas import Referrals
from marketplace.referrals import codes, queries
from marketplace.referrals.queries import ReferralProgram

area = ContractBlueprint("referrals", "/api/users/me/referrals", "Your referral code and rewards")


@area.get("", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER, reply=Referrals)
def get_referrals(ctx: Context) -> ReferralProgram:
    """Get your referral code, the rewards, and what your referrals earned."""
    return queries.show_program(ctx.session, user_id=ctx.user.id)


@area.post("/code", auth=AUTHENTICATED, limit="5/day", reply=Referrals, status=201)
def issue_referral_code(ctx: Context) -> ReferralProgram:
    """Replace your referral code by a new one, which is valid for a year. The old code ends at once."""
    return codes.issue_code(ctx.session, user_id=ctx.user.id, now=ctx.now)
