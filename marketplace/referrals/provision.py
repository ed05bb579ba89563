"""Provision users of the identity provider: create the profile and evaluate the referral code."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity import operations as identity
from marketplace.kernel.errors import ForbiddenError
from marketplace.referrals import texts
from marketplace.referrals.evaluate import evaluate_referral
from marketplace.referrals.models import Referral


class EmailDomainBarredError(ForbiddenError):
    """The e-mail address's domain is barred from signing up."""

    reason = "email-domain-barred"


@dataclass(frozen=True)
class NewUser:
    """A user of the identity provider. The phone number is unverified and in international format."""

    id: UUID
    email: str | None = None
    name: str | None = None
    phone: str | None = None
    referral_code: str | None = None


@dataclass(frozen=True)
class ProvisionedUser:
    """The result of a provisioning: whether the profile is new, and the referral if a code was evaluated."""

    created: bool
    referral: Referral | None


def provision_user(
    session: Session, *, user: NewUser, barred_email_domains: Collection[str] = (), now: datetime
) -> ProvisionedUser:
    """Create a user's profile and evaluate the referral code. Repeated calls change nothing.

    The profile may exist, because a token that came first creates it too. Its missing fields are then filled in.

    :param barred_email_domains: lower-case domains; subdomains are barred too
    :raises EmailDomainBarredError: the e-mail address's domain is barred
    :raises AccountErasedError: the person was erased
    """
    _ensure_domain_not_barred(user.email, barred_email_domains)
    created = identity.create_profile(
        session, user_id=user.id, email=user.email, name=user.name, phone=user.phone, now=now
    )
    if not created:
        identity.complete_profile(
            session, user_id=user.id, email=user.email, name=user.name, phone=user.phone
        )
    referral = None
    if user.referral_code:
        referral = evaluate_referral(session, newcomer_id=user.id, code=user.referral_code, now=now)
    return ProvisionedUser(created, referral)


def _ensure_domain_not_barred(email: str | None, barred_domains: Collection[str]) -> None:
    domain = (email or "").rpartition("@")[2].lower().rstrip(".")
    if any(domain == barred or domain.endswith(f".{barred}") for barred in barred_domains):
        raise EmailDomainBarredError(texts.EMAIL_DOMAIN_BARRED.format(domain=domain))
