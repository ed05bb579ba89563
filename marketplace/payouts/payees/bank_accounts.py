"""Bank accounts that payouts go to: whose they are is asked of the bank, and those that were replaced are kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.operations import lock_profile
from marketplace.identity.queries import list_former_contacts
from marketplace.infra.cache import Cache
from marketplace.infra.db import Statement
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.notifications.operations import notify
from marketplace.payments.intents.banks import resolve_account
from marketplace.payouts.models import PayoutAccount
from marketplace.payouts.payees.holds import account_held_until
from marketplace.providers.gateway.payments import PaymentGateway
from marketplace.providers.gateway.transfers import TransferGateway

VISIBLE_DIGITS = 4
# A number that was given up longer ago may be somebody else's by now.
_FORMER_CONTACT_PERIOD = timedelta(days=30)
_FORMER_CONTACTS_LIMIT = 20
_HISTORY_LIMIT = 50

_COLUMNS = (
    PayoutAccount.id,
    PayoutAccount.bank_code,
    PayoutAccount.bank_name,
    PayoutAccount.account_number,
    PayoutAccount.account_name,
    PayoutAccount.recipient_code,
    PayoutAccount.created_at,
    PayoutAccount.replaced_at,
)
_SELECT_ACCOUNTS_OF_USER = select(*_COLUMNS).where(PayoutAccount.user_id == bindparam("user_id"))
_SELECT_CURRENT_ACCOUNT = Statement(_SELECT_ACCOUNTS_OF_USER.where(PayoutAccount.replaced_at.is_(None)))
_SELECT_ACCOUNT_HISTORY = Statement(
    _SELECT_ACCOUNTS_OF_USER.order_by(PayoutAccount.id.desc()).limit(bindparam("limit"))
)
_RETIRE_CURRENT_ACCOUNT = Statement(
    text("UPDATE payout_accounts SET replaced_at = :now WHERE user_id = :user_id AND replaced_at IS NULL")
)
_INSERT_ACCOUNT = Statement(
    text(
        """
        INSERT INTO payout_accounts
            (user_id, bank_code, bank_name, account_number, account_name, recipient_code, created_at)
        VALUES (:user_id, :bank_code, :bank_name, :account_number, :account_name, :recipient_code, :now)
        RETURNING id
        """
    )
)
_UPDATE_RECIPIENT_CODE = Statement(
    text("UPDATE payout_accounts SET recipient_code = :recipient_code WHERE id = :id")
)


@dataclass(frozen=True, slots=True)
class ResolvedAccount:
    """A bank account as the bank knows it, and the recipient that the gateway made of it."""

    bank_code: str
    bank_name: str
    account_number: str
    account_name: str
    recipient_code: str


def resolve_payout_account(
    cache: Cache,
    gateway: PaymentGateway,
    transfers: TransferGateway,
    *,
    account_number: str,
    bank_code: str,
    field_prefix: str = "",
) -> ResolvedAccount:
    """Ask whose account it is, and have the gateway make it a recipient of transfers.

    :param account_number: ten digits
    :param bank_code: of a bank of the list
    :param field_prefix: the path of what holds the two in the request, ending with a dot; faults are named by it
    :raises ValidationError: there is no such bank or account, or none that can be paid to; named
    :raises ProviderUnavailableError: the gateway gave no usable answer
    """
    try:
        resolved = resolve_account(cache, gateway, account_number=account_number, bank_code=bank_code)
    except ValidationError as error:
        invalid_params = [
            InvalidParam(f"{field_prefix}{param.name}", param.reason) for param in error.invalid_params
        ]
        raise ValidationError(error.detail, invalid_params=invalid_params) from error
    recipient_code = transfers.create_recipient(
        name=resolved["accountName"], account_number=account_number, bank_code=bank_code
    )
    if recipient_code is None:
        raise ValidationError.of(f"{field_prefix}accountNumber", "Is not an account that can be paid to.")
    return ResolvedAccount(
        bank_code=bank_code,
        bank_name=resolved["bankName"],
        account_number=account_number,
        account_name=resolved["accountName"],
        recipient_code=recipient_code,
    )


def replace_payout_account(session: Session, *, user_id: UUID, account: ResolvedAccount, act: Act) -> bool:
    """Have somebody's payouts go to another bank account, and tell them wherever they are reached.

    Payouts are held for a day from then. The account that they go to already stays, without a hold or a word: all that
    may be new of it is the recipient that the gateway knows it as, which is taken over.

    :param user_id: whose payouts
    :param account: as ``resolve_payout_account`` gave it
    :return: whether it is another one
    """
    lock_profile(session, user_id=user_id)
    before = _SELECT_CURRENT_ACCOUNT.first(session, user_id=user_id)
    if before is not None and _is_same_account(before, account):
        if before["recipient_code"] != account.recipient_code:
            _renew_recipient(session, before, account, user_id=user_id, act=act)
        return False
    _RETIRE_CURRENT_ACCOUNT.run(session, user_id=user_id, now=act.now)
    row = _INSERT_ACCOUNT.one(
        session,
        user_id=user_id,
        bank_code=account.bank_code,
        bank_name=account.bank_name,
        account_number=account.account_number,
        account_name=account.account_name,
        recipient_code=account.recipient_code,
        now=act.now,
    )
    record_audit_entry(
        session,
        act=act,
        action="payout_account.change",
        target_type="profile",
        target_id=str(user_id),
        before=None if before is None else {"accountId": str(before["id"])},
        after={"accountId": str(row["id"])},
    )
    _notify_account_changed(session, user_id=user_id, account_id=row["id"], account=account, now=act.now)
    return True


def replace_and_show_account(
    session: Session, *, user_id: UUID, account: ResolvedAccount, act: Act
) -> dict[str, Any]:
    """Do as ``replace_payout_account``, and give the account as its owner is shown it."""
    replace_payout_account(session, user_id=user_id, account=account, act=act)
    return serialize_account(_SELECT_CURRENT_ACCOUNT.one(session, user_id=user_id), now=act.now)


def find_current_account(session: Session, *, user_id: UUID) -> dict[str, Any] | None:
    """Give the bank account that somebody's payouts go to, or none; its number is whole."""
    return _SELECT_CURRENT_ACCOUNT.first(session, user_id=user_id)


def serialize_account(row: dict[str, Any], *, now: datetime) -> dict[str, Any]:
    """Give a bank account as its owner is shown it: of the number, the last digits alone.

    :param row: as ``find_current_account`` gives it
    :param now: the time of the request, which tells whether it still holds payouts
    """
    held_until = account_held_until(row["created_at"])
    return {
        "id": row["id"],
        "bankCode": row["bank_code"],
        "bankName": row["bank_name"],
        "accountNumber": mask_account_number(row["account_number"]),
        "accountName": row["account_name"],
        "since": row["created_at"],
        "replacedAt": row["replaced_at"],
        "heldUntil": held_until if row["replaced_at"] is None and held_until > now else None,
    }


def show_current_account(session: Session, *, user_id: UUID, now: datetime) -> dict[str, Any] | None:
    """Give the bank account that somebody's payouts go to as they are shown it, or none."""
    row = find_current_account(session, user_id=user_id)
    return None if row is None else serialize_account(row, now=now)


def list_account_history(session: Session, *, user_id: UUID, now: datetime) -> list[dict[str, Any]]:
    """List the bank accounts that somebody's payouts went to, the present one first; at most 50."""
    return [
        serialize_account(row, now=now)
        for row in _SELECT_ACCOUNT_HISTORY.all(session, user_id=user_id, limit=_HISTORY_LIMIT)
    ]


def mask_account_number(account_number: str) -> str:
    """Write an account number with its last four digits alone."""
    return "*" * (len(account_number) - VISIBLE_DIGITS) + account_number[-VISIBLE_DIGITS:]


def _is_same_account(row: dict[str, Any], account: ResolvedAccount) -> bool:
    return (row["bank_code"], row["account_number"]) == (account.bank_code, account.account_number)


def _renew_recipient(
    session: Session,
    before: dict[str, Any],
    account: ResolvedAccount,
    *,
    user_id: UUID,
    act: Act,
) -> None:
    """Pay to the same account by another recipient: the gateway may not know the former one any more."""
    _UPDATE_RECIPIENT_CODE.run(session, id=before["id"], recipient_code=account.recipient_code)
    account_id = str(before["id"])
    record_audit_entry(
        session,
        act=act,
        action="payout_account.renew_recipient",
        target_type="profile",
        target_id=str(user_id),
        before={"accountId": account_id, "recipientCode": before["recipient_code"]},
        after={"accountId": account_id, "recipientCode": account.recipient_code},
    )


def _notify_account_changed(
    session: Session, *, user_id: UUID, account_id: UUID, account: ResolvedAccount, now: datetime
) -> None:
    """Tell somebody where they can be reached now, and where they could be reached until lately."""
    former = list_former_contacts(
        session, user_id=user_id, since=now - _FORMER_CONTACT_PERIOD, limit=_FORMER_CONTACTS_LIMIT
    )
    body = (
        f"Your payouts go to an account at {account.bank_name} now that ends with"
        f" {account.account_number[-VISIBLE_DIGITS:]}. None is sent before"
        f" {account_held_until(now):%d %B %Y, %H:%M} UTC. If this was not you, contact support before then."
    )
    for contact in (None, *former):
        notify(
            session,
            user_id=user_id,
            type="bank_account_changed",
            title="The bank account of your payouts was changed",
            body=body,
            link="/payouts",
            cause=f"payout_account:{account_id}" + (f":former:{contact}" if contact else ""),
            former_contact_id=contact,
            now=now,
        )
