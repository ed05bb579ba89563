"""The search of people reads the index of names and e-mail addresses."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.kernel.paging import TableRequest
from marketplace.people.queries import PeopleFilters, fold_search_text, list_people
from tests.support.purchases import make_person


def test_search_reads_the_index(session: Session) -> None:
    make_person(session)
    filters = PeopleFilters(text="okafor example")
    before = session.scalar(text("SELECT pg_stat_get_xact_numscans('ix_profiles_search'::regclass)"))

    list_people(
        session, filters=filters, table=TableRequest(50, number=1, sort="created_at", descending=True)
    )

    after = session.scalar(text("SELECT pg_stat_get_xact_numscans('ix_profiles_search'::regclass)"))
    assert after >= before + 2


def test_service_and_database_fold_names_alike(session: Session) -> None:
    for name in ("Ọláyínká", "ADÉ", "İstanbul", "Zoë-Ann O\u2019Neil", "ﬁnn", "\uff37ide"):
        folded = session.scalar(text("SELECT people_search_text(:name, NULL)"), {"name": name})
        assert folded.strip() == fold_search_text(name)
