"""Texts about referrals. Placeholders are filled with ``str.format``."""

# Ledger descriptions, which wallet statements show.
NEWCOMER_REWARD_DESCRIPTION = "Reward for signing up with a referral code"
REFERRER_REWARD_DESCRIPTION = "Reward for referring a new user"

NEWCOMER_REWARD_TITLE = "Your welcome reward"
NEWCOMER_REWARD_BODY = (
    "{amount} from your referral code is in your wallet. You can pay orders with it, but not withdraw it."
)
REFERRER_REWARD_TITLE = "Referral reward"
REFERRER_REWARD_BODY = (
    "A person whom you referred received the first order. {amount} is in your wallet."
    " You can pay orders with it, but not withdraw it."
)

EMAIL_DOMAIN_BARRED = "Accounts with addresses of {domain} are not accepted. Use another e-mail address."
