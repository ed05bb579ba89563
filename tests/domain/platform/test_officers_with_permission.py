"""Officers with a permission, the recipients of notifications about open work."""

from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.identity.permissions import MANAGE_PLATFORM
from marketplace.identity.queries import list_officers_with_permission
from tests.support.purchases import NOW

LIMIT = 100


def make_officer(session: Session, **values: object) -> UUID:
    officer = Profile(**({"id": uuid4(), "role": "staff", "staff_role": "admin", "name": "Officer"} | values))
    session.add(officer)
    session.flush()
    return officer.id


class TestOfficersWithPermission:
    def test_newest_officers_are_notified_above_the_limit(self, session: Session) -> None:
        # The oldest officer has the highest id, because ids are not ordered by time.
        first = make_officer(session, id=UUID(int=2**128 - 1), created_at=NOW - timedelta(days=3_650))
        others = [make_officer(session, created_at=NOW + timedelta(days=3_650)) for _ in range(LIMIT)]

        officers = list_officers_with_permission(session, permission=MANAGE_PLATFORM)

        assert set(officers) == set(others)
        assert first not in officers

    def test_unauthorized_suspended_and_excluded_officers_are_not_listed(self, session: Session) -> None:
        late = NOW + timedelta(days=3_650)
        asks, other = make_officer(session, created_at=late), make_officer(session, created_at=late)
        support = make_officer(session, staff_role="support", created_at=late)
        suspended = make_officer(session, account_status="suspended", created_at=late)

        officers = list_officers_with_permission(
            session, permission=MANAGE_PLATFORM, excluded_officer_id=asks
        )

        assert other in officers
        assert not {asks, support, suspended} & set(officers)
