"""E-mail domains of campuses: which addresses belong to a campus, and which domains staff may add."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.models import AuditLog
from marketplace.audit.operations import Act
from marketplace.identity.models import Profile
from marketplace.identity.operations import create_profile
from marketplace.kernel.errors import LimitReachedError, NotFoundError, ValidationError
from marketplace.platform.campuses import email_domains
from marketplace.platform.campuses.email_domains import (
    EmailDomainTakenError,
    add_domain,
    find_campus_of_email,
    normalize_domain,
    remove_domain,
)
from marketplace.platform.models import Campus, CampusEmailDomain
from tests.support.purchases import NOW, make_campus

ADMIN = Act("admin", NOW, user_id=uuid4())


@pytest.fixture
def domain(session: Session) -> str:
    return f"u{uuid4().hex[:8]}.edu.ng"


@pytest.fixture
def campus_id(session: Session, domain: str) -> UUID:
    campus_id = make_campus(session)
    add_domain(session, campus_id=campus_id, domain=domain, act=ADMIN)
    return campus_id


@pytest.mark.parametrize(
    "mailbox", ["ada@{}", "ADA@{}", "ada@students.{}", "ada@a.b.students.{}", '"x@y"@{}', "ada@{}."]
)
def test_address_of_domain_or_subdomain_belongs_to_campus(
    session: Session, campus_id: UUID, domain: str, mailbox: str
) -> None:
    assert find_campus_of_email(session, mailbox.format(domain)) == campus_id
    assert find_campus_of_email(session, mailbox.format(domain.upper())) == campus_id


@pytest.mark.parametrize(
    "address",
    [
        "ada@evil-{}",
        "ada@evil{}",
        "ada@{}.evil.com",
        "ada@{}@evil.com",
        "{}",
        "ada@",
        "ada@-.{}",
        "ada@..{}",
        "@edu.ng",
    ],
)
def test_address_of_lookalike_domain_belongs_to_no_campus(
    session: Session, campus_id: UUID, domain: str, address: str
) -> None:
    assert find_campus_of_email(session, address.format(domain)) is None


def test_lookalike_letters_belong_to_no_campus(session: Session, campus_id: UUID, domain: str) -> None:
    cyrillic = "ada@" + domain.replace("u", "\u0446", 1).replace("e", "\u0435", 1)
    sharp_s = make_campus(session)
    add_domain(session, campus_id=sharp_s, domain=f"ss{domain}", act=ADMIN)

    assert find_campus_of_email(session, cyrillic) is None
    assert find_campus_of_email(session, f"ada@\u00df{domain}") is None
    # Full-width letters are the same letters by the rules of domain names.
    assert find_campus_of_email(session, f"ada@\uff53\uff53{domain}") == sharp_s


def test_longest_domain_decides(session: Session, campus_id: UUID, domain: str) -> None:
    medicine = make_campus(session)
    add_domain(session, campus_id=medicine, domain=f"med.{domain}", act=ADMIN)

    assert find_campus_of_email(session, f"ada@med.{domain}") == medicine
    assert find_campus_of_email(session, f"ada@x.med.{domain}") == medicine
    assert find_campus_of_email(session, f"ada@xmed.{domain}") == campus_id


def test_inactive_campus_takes_no_people(session: Session, campus_id: UUID, domain: str) -> None:
    session.get_one(Campus, campus_id).active = False
    session.flush()

    assert find_campus_of_email(session, f"ada@{domain}") is None


def test_existing_people_keep_campus_when_domain_moves(
    session: Session, campus_id: UUID, domain: str
) -> None:
    user_id = uuid4()
    create_profile(session, user_id=user_id, email=f"ada@{domain}", name="Ada", now=NOW)
    other = make_campus(session)

    remove_domain(session, campus_id=campus_id, domain=domain, act=ADMIN)
    add_domain(session, campus_id=other, domain=domain, act=ADMIN)

    assert session.get_one(Profile, user_id).campus_id == campus_id
    assert find_campus_of_email(session, f"ada@{domain}") == other


def test_domain_is_stored_in_ascii_and_audited(session: Session, campus_id: UUID) -> None:
    add_domain(session, campus_id=campus_id, domain=" Universit\u00e4t.Example. ", act=ADMIN)

    assert session.get(CampusEmailDomain, "xn--universitt-y5a.example") is not None
    latest = session.scalars(select(AuditLog).order_by(AuditLog.id.desc()).limit(1)).one()
    assert (latest.action, latest.target_id) == ("campus.add_domain", str(campus_id))
    assert latest.after == {"domain": "xn--universitt-y5a.example"}

    assert remove_domain(session, campus_id=campus_id, domain="UNIVERSIT\u00c4T.example", act=ADMIN)
    with pytest.raises(NotFoundError):
        remove_domain(session, campus_id=campus_id, domain="universit\u00e4t.example", act=ADMIN)


@pytest.mark.parametrize(
    "refused",
    [
        *("gmail.com", "GMAIL.com", "x.gmail.com", "yahoo.com.ng"),
        *(
            "edu.ng",
            "com.ng",
            "ng",
            "localhost",
            "127.0.0.1",
            "a b.com",
            "ada@unilag.edu.ng",
            "-a.com",
            "a-.com",
        ),
        *(
            "a..com",
            ".com",
            "a_b.com",
            "x" * 64 + ".com",
            ".".join(["x" * 60] * 5) + ".com",
            "xn--a.com/\u0430",
        ),
    ],
)
def test_domains_of_providers_and_malformed_domains_are_refused(
    session: Session, campus_id: UUID, refused: str
) -> None:
    with pytest.raises(ValidationError):
        add_domain(session, campus_id=campus_id, domain=refused, act=ADMIN)


def test_domain_of_any_campus_is_taken(session: Session, campus_id: UUID, domain: str) -> None:
    for taker in (campus_id, make_campus(session)):
        with pytest.raises(EmailDomainTakenError):
            add_domain(session, campus_id=taker, domain=domain.upper(), act=ADMIN)


def test_number_of_domains_is_limited(
    session: Session, campus_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(email_domains, "MAX_DOMAINS", 1)
    with pytest.raises(LimitReachedError):
        add_domain(session, campus_id=campus_id, domain=f"{uuid4().hex}.example", act=ADMIN)


def test_normalization_is_stable() -> None:
    for text in ("Unilag.EDU.ng", "b\u00fccher.example", "fa\u00df.example", "\u0130.example"):
        normalized = normalize_domain(text)
        assert normalized is not None
        assert normalize_domain(normalized) == normalized
