"""Checks of the two accounts of a referral: both active, and of different people.

Accounts that share a mailbox, a phone number or a bank account count as the same person.
"""

from sqlalchemy import exists, select
from sqlalchemy.orm import Session, aliased

from marketplace.identity.models import Profile
from marketplace.payouts.models import PayoutAccount
from marketplace.referrals.states import Rejection

# Mail providers that ignore dots in the mailbox.
_DOMAINS_WITHOUT_DOTS = frozenset({"gmail.com", "googlemail.com"})


def normalize_mailbox(email: str) -> str:
    """Convert an e-mail address to a form that all spellings of a mailbox share.

    Case and a suffix after ``+`` do not distinguish mailboxes. The result is for comparison only.
    """
    mailbox, _, domain = email.strip().lower().rpartition("@")
    mailbox = mailbox.partition("+")[0]
    if domain in _DOMAINS_WITHOUT_DOTS:
        mailbox, domain = mailbox.replace(".", ""), "gmail.com"
    return f"{mailbox}@{domain}"


def find_account_rejection(session: Session, newcomer: Profile, referrer: Profile) -> Rejection | None:
    """Return the reason why two accounts earn no reward, if any."""
    if referrer.account_status != "active":
        return "referrer_not_active"
    if newcomer.account_status != "active":
        return "newcomer_not_active"
    return "same_person" if belong_to_same_person(session, newcomer, referrer) else None


def belong_to_same_person(session: Session, first: Profile, second: Profile) -> bool:
    """Return whether two accounts appear to belong to the same person."""
    if first.id == second.id:
        return True
    if first.email and second.email and normalize_mailbox(first.email) == normalize_mailbox(second.email):
        return True
    if first.phone and first.phone == second.phone:
        return True
    own, other = aliased(PayoutAccount), aliased(PayoutAccount)
    shared = exists().where(
        own.user_id == first.id,
        other.user_id == second.id,
        own.bank_code == other.bank_code,
        own.account_number_index == other.account_number_index,
    )
    return bool(session.scalar(select(shared)))
