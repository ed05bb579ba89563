"""E-mail domains of campuses: which campus an e-mail address belongs to, and changes by staff."""

import re
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.kernel.errors import ConflictError, LimitReachedError, NotFoundError, ValidationError
from marketplace.platform import texts
from marketplace.platform.campuses.campus_list import lock_campus
from marketplace.platform.models import Campus, CampusEmailDomain

MAX_DOMAINS = 50  # of a campus; the staff's list shows all

_MAX_DOMAIN_LENGTH = 253
_ASCII_DOMAIN = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))+")
# Anybody can get an address of these providers. An address says nothing about its owner's university.
_PUBLIC_PROVIDERS = frozenset(
    (
        *("aol.com", "fastmail.com", "gmail.com", "gmx.com", "gmx.net", "googlemail.com"),
        *("hey.com", "hotmail.co.uk", "hotmail.com", "hotmail.fr", "icloud.com", "inbox.com"),
        *("live.co.uk", "live.com", "mac.com", "mail.com", "mail.ru", "mailinator.com"),
        *("me.com", "msn.com", "outlook.com", "pm.me", "proton.me", "protonmail.com"),
        *("rocketmail.com", "tutanota.com", "tutamail.com", "yahoo.co.uk", "yahoo.com", "yahoo.com.ng"),
        *("yahoo.fr", "yandex.com", "yandex.ru", "ymail.com", "zoho.com", "zohomail.com"),
    )
)
# Suffixes under which many organisations register domains.
_SHARED_SUFFIXES = frozenset(
    (
        *("ac.uk", "co.uk", "co.za", "ac.za", "edu.gh", "edu.au"),
        *("ac.ke", "com.ng", "edu.ng", "gov.ng", "i.ng", "mil.ng"),
        *("mobi.ng", "name.ng", "net.ng", "org.ng", "sch.ng"),
    )
)


class EmailDomainTakenError(ConflictError):
    """A campus already has this e-mail domain."""

    reason = "email-domain-taken"


def normalize_domain(domain: str) -> str | None:
    """Convert a domain to lower-case ASCII (IDNA 2008), so that look-alike letters give different domains.

    :return: None if the text is no domain with at least two labels
    """
    ascii_domain = domain.strip().rstrip(".").lower()
    if not ascii_domain.isascii():
        # Most domains are ASCII, so most processes never load the tables of the library.
        import idna  # noqa: PLC0415

        try:
            ascii_domain = idna.encode(ascii_domain, uts46=True, std3_rules=True).decode("ascii").lower()
        except idna.IDNAError:
            return None
    is_domain = len(ascii_domain) <= _MAX_DOMAIN_LENGTH and _ASCII_DOMAIN.fullmatch(ascii_domain)
    # The last label of a domain is not a number; that is an IP address.
    return ascii_domain if is_domain and not ascii_domain.rpartition(".")[2].isdigit() else None


def find_campus_of_email(session: Session, email: str | None) -> UUID | None:
    """Find the active campus that owns the domain of an e-mail address, or a domain above.

    ``students.unilag.edu.ng`` belongs to the campus with ``unilag.edu.ng``, unless a campus has the subdomain itself.

    :param email: an address that the identity provider verified
    """
    domain = normalize_domain(email.rpartition("@")[2]) if email and "@" in email else None
    if domain is None:
        return None
    labels = domain.split(".")
    suffixes = [".".join(labels[start:]) for start in range(len(labels) - 1)]
    return session.scalar(
        select(CampusEmailDomain.campus_id)
        .join(Campus, Campus.id == CampusEmailDomain.campus_id)
        .where(CampusEmailDomain.domain.in_(suffixes), Campus.active)
        .order_by(func.length(CampusEmailDomain.domain).desc())
        .limit(1)
    )


def add_domain(session: Session, *, campus_id: UUID, domain: str, act: Act) -> None:
    """Add an e-mail domain to a campus. Existing people keep their campus.

    :raises NotFoundError: the campus does not exist
    :raises ValidationError: the text is no domain of an organisation
    :raises EmailDomainTakenError: this campus or another has the domain
    :raises LimitReachedError: the campus has ``MAX_DOMAINS`` domains
    """
    lock_campus(session, campus_id=campus_id)
    normalized = _validate_domain(domain)
    count = session.scalar(
        select(func.count()).select_from(CampusEmailDomain).where(CampusEmailDomain.campus_id == campus_id)
    )
    if (count or 0) >= MAX_DOMAINS:
        raise LimitReachedError(texts.TOO_MANY_DOMAINS.format(limit=MAX_DOMAINS))
    # Two officers of different campuses hold different locks, so the key decides.
    added = session.scalar(
        insert(CampusEmailDomain)
        .values(domain=normalized, campus_id=campus_id)
        .on_conflict_do_nothing()
        .returning(CampusEmailDomain.domain)
    )
    if added is None:
        raise EmailDomainTakenError(texts.DOMAIN_TAKEN.format(domain=normalized))
    record_audit_entry(
        session,
        act=act,
        action="campus.add_domain",
        target_type="campus",
        target_id=str(campus_id),
        after={"domain": normalized},
    )


def remove_domain(session: Session, *, campus_id: UUID, domain: str, act: Act) -> str:
    """Remove an e-mail domain from a campus. Existing people keep their campus.

    :return: the removed domain
    :raises NotFoundError: the campus does not have the domain
    """
    removed: str | None = session.scalar(
        delete(CampusEmailDomain)
        .where(CampusEmailDomain.campus_id == campus_id, CampusEmailDomain.domain == normalize_domain(domain))
        .returning(CampusEmailDomain.domain)
    )
    if removed is None:
        raise NotFoundError("E-mail domain not found.")
    record_audit_entry(
        session,
        act=act,
        action="campus.remove_domain",
        target_type="campus",
        target_id=str(campus_id),
        before={"domain": removed},
    )
    return removed


def _validate_domain(domain: str) -> str:
    normalized = normalize_domain(domain)
    if normalized is None:
        raise ValidationError.of("domain", texts.NOT_A_DOMAIN)
    labels = normalized.split(".")
    above = {".".join(labels[start:]) for start in range(len(labels))}
    if above & _PUBLIC_PROVIDERS:
        raise ValidationError.of("domain", texts.PUBLIC_PROVIDER)
    if normalized in _SHARED_SUFFIXES:
        raise ValidationError.of("domain", texts.SHARED_SUFFIX)
    return normalized
