"""State machine of referrals, and the causes of a rejection."""

from typing import Literal, get_args

from marketplace.kernel.states import StateMachine, Transition

PENDING = "pending"
REWARDED = "rewarded"
REJECTED = "rejected"

REWARD = "reward"
REJECT = "reject"

# A rejected referral earns the referrer nothing. At the sign-up, a rejection also denies the newcomer's reward.
REFERRAL = StateMachine(
    name="referral",
    initial=PENDING,
    transitions=(
        Transition(REWARD, (PENDING,), REWARDED),
        Transition(REJECT, (PENDING,), REJECTED),
    ),
)

Rejection = Literal[
    "unknown_code",
    "code_expired",
    "same_person",
    "loop",
    "referrer_not_active",
    "newcomer_not_active",
    "cap_reached",
    "budget_spent",
    "no_order_in_time",
]
REJECTIONS: tuple[Rejection, ...] = get_args(Rejection)
