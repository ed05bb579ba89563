"""Concurrent changes of campuses, hubs and shifts: the database lets exactly one of two conflicting changes through."""

from uuid import UUID, uuid4

from marketplace.audit.operations import Act
from marketplace.identity.models import Profile
from marketplace.identity.rep_shifts import ShiftsOverlapError, create_shift
from marketplace.infra.db import Database
from marketplace.kernel.errors import StaleRevisionError
from marketplace.kernel.opening_hours import OpenInterval
from marketplace.platform.campuses.email_domains import EmailDomainTakenError, add_domain
from marketplace.platform.campuses.hubs import HubNameTakenError, create_hub, update_hub
from marketplace.platform.models import Hub
from tests.support.purchases import NOW, make_campus
from tests.support.threads import at_once, unexpected_errors

ADMIN = Act("admin", NOW, user_id=uuid4())
HUB = {"name": "Gate", "address": "Main gate", "opening_hours": None}


def test_same_domain_is_added_to_one_campus(database: Database) -> None:
    with database.transaction() as session:
        campuses = [make_campus(session) for _ in range(3)]
    domain = f"{uuid4().hex}.edu.ng"

    def add(campus_id: UUID) -> None:
        database.in_transaction(add_domain, campus_id=campus_id, domain=domain, act=ADMIN)

    results = at_once(add, [*campuses, *campuses])

    assert unexpected_errors(results, EmailDomainTakenError) == []
    assert results.count(None) == 1


def test_one_of_two_changes_of_same_revision_is_refused(database: Database) -> None:
    with database.transaction() as session:
        campus_id = make_campus(session)
        hub = create_hub(session, campus_id=campus_id, fields=dict(HUB), act=ADMIN)

    def rename(name: str) -> object:
        return database.in_transaction(
            update_hub, campus_id=campus_id, hub_id=hub.id, changes={"name": name}, revision=1, act=ADMIN
        )

    results = at_once(rename, ["East Gate", "West Gate"])

    assert len(unexpected_errors(results)) == 1
    assert unexpected_errors(results, StaleRevisionError) == []
    with database.reading() as session:
        assert session.get_one(Hub, hub.id).revision == 2


def test_hub_name_is_given_once(database: Database) -> None:
    with database.transaction() as session:
        campus_id = make_campus(session)

    def create(_number: int) -> object:
        return database.in_transaction(create_hub, campus_id=campus_id, fields=dict(HUB), act=ADMIN)

    results = at_once(create, [1, 2, 3])

    assert unexpected_errors(results, HubNameTakenError) == []
    assert len(unexpected_errors(results)) == 2


def test_representative_gets_one_of_overlapping_shifts(database: Database) -> None:
    with database.transaction() as session:
        campus_id, rep_id = make_campus(session), uuid4()
        hubs = [
            create_hub(session, campus_id=campus_id, fields=HUB | {"name": name}, act=ADMIN)
            for name in ("A1", "B1")
        ]
        session.add(Profile(id=rep_id, role="staff", staff_role="campus_rep", campus_id=campus_id))

    def assign(hub_id: UUID) -> object:
        return database.in_transaction(
            create_shift, hub_id=hub_id, user_id=rep_id, period=OpenInterval(0, 540, 720), act=ADMIN
        )

    results = at_once(assign, [hub.id for hub in hubs])

    assert unexpected_errors(results, ShiftsOverlapError) == []
    assert len(unexpected_errors(results)) == 1
