"""Sign-ins of staff, recorded once in the audit trail."""

from datetime import datetime

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.models import StaffSignIn


def record_staff_sign_in(session: Session, *, act: Act, aal: str, signed_in_at: datetime) -> bool:
    """Record a sign-in of a staff member, unless the audit trail has it.

    :param act: the first request after the sign-in
    :param aal: the assurance level of the token, ``aal1`` or ``aal2``
    :return: whether the sign-in is new
    """
    new = session.scalar(
        insert(StaffSignIn)
        .values(user_id=act.person_id, signed_in_at=signed_in_at)
        .on_conflict_do_nothing(index_elements=["user_id", "signed_in_at"])
        .returning(StaffSignIn.user_id)
    )
    if new is None:
        return False
    record_audit_entry(
        session,
        act=act,
        action="staff.sign-in",
        target_type="profile",
        target_id=str(act.person_id),
        after={"signedInAt": signed_in_at.isoformat(), "aal": aal},
    )
    return True
