"""Two administrators who revoke each other's role at the same moment."""

from sqlalchemy import text

from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.infra.db import Database
from marketplace.people.staff_roles import LastAdminError, revoke_staff_role
from tests.support.purchases import NOW, make_person
from tests.support.threads import at_once, unexpected_errors


def test_an_administrator_is_left_after_mutual_revocations(database: Database) -> None:
    def revoke(pair: tuple[Caller, Caller]) -> None:
        officer, person = pair
        database.in_transaction(
            revoke_staff_role,
            user_id=person.id,
            reason="The team changes in March.",
            act=Act("admin", NOW, user_id=officer.id),
        )

    for _ in range(5):
        with database.transaction() as session:
            session.execute(
                text("UPDATE profiles SET role = 'buyer', staff_role = NULL WHERE staff_role = 'admin'")
            )
            first, second = (make_person(session, role="staff", staff_role="admin") for _ in range(2))

        results = at_once(revoke, [(first, second), (second, first)])

        assert unexpected_errors(results, LastAdminError) == []
        assert results.count(None) == 1
