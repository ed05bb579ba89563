"""Payees' bank accounts. The bank reports the holder's name, and replaced accounts are kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.operations import lock_profile
from marketplace.identity.queries import list_former_contacts
from marketplace.infra.cache import Cache
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.notifications.operations import notify
from marketplace.payments.intents.banks import ResolvedAccount, UnknownBankAccountError, resolve_account
from marketplace.payouts import texts
from marketplace.payouts.models import VISIBLE_DIGITS, PayoutAccount, mask_account_number
from marketplace.payouts.payees.holds import account_held_until
from marketplace.providers.gateway.payments import PaymentGateway
from marketplace.providers.gateway.transfers import TransferGateway

# An older contact may belong to another person by now.
_FORMER_CONTACT_PERIOD = timedelta(days=30)


@dataclass(frozen=True)
class BankAccount:
    """A bank account of a payout."""

    bank_code: str
    bank_name: str | None
    account_number: str
    account_name: str

    @property
    def masked_number(self) -> str:
        """The account number with only the last four digits."""
        return mask_account_number(self.account_number)


@dataclass(frozen=True)
class OwnAccount:
    """A payee's own bank account. A new account receives no payouts before ``held_until``."""

    account: PayoutAccount
    held_until: datetime | None


@dataclass(frozen=True)
class PayoutRecipient(ResolvedAccount):
    """A bank account as reported by the bank, with the recipient code at the gateway."""

    recipient_code: str


def resolve_payout_account(
    cache: Cache,
    gateway: PaymentGateway,
    transfers: TransferGateway,
    *,
    account_number: str,
    bank_code: str,
    field_prefix: str = "",
) -> PayoutRecipient:
    """Fetch the account's holder from the bank, and create a recipient at the gateway.

    :param account_number: ten digits
    :param field_prefix: the path of the account's fields in the request, ending with a dot, for error messages
    :raises ValidationError: the bank does not exist
    :raises UnknownBankAccountError: the bank or the gateway does not know the account
    :raises ProviderUnavailableError: the gateway gave no usable answer
    """
    try:
        resolved = resolve_account(cache, gateway, account_number=account_number, bank_code=bank_code)
    except ValidationError as error:
        raise type(error)(
            error.detail,
            invalid_params=[
                InvalidParam(f"{field_prefix}{param.name}", param.reason) for param in error.invalid_params
            ],
        ) from error
    recipient_code = transfers.create_recipient(
        name=resolved.account_name, account_number=account_number, bank_code=bank_code
    )
    if recipient_code is None:
        raise UnknownBankAccountError.of(
            f"{field_prefix}accountNumber", "Must be an account that can receive transfers."
        )
    return PayoutRecipient(**vars(resolved), recipient_code=recipient_code)


def replace_payout_account(session: Session, *, user_id: UUID, account: PayoutRecipient, act: Act) -> bool:
    """Replace the bank account of a person's payouts, and notify the person at current and former contacts.

    Payouts are on hold for the next 24 hours. For an unchanged account only the recipient code is renewed, without a
    hold or a notification.

    :return: whether the account has changed
    """
    lock_profile(session, user_id=user_id)
    before = find_current_account(session, user_id=user_id)
    if before is not None:
        if (before.bank_code, before.account_number) == (account.bank_code, account.account_number):
            _renew_recipient(session, before, account.recipient_code, act=act)
            return False
        before.replaced_at = act.now
        # The unit of work would insert first, and an index allows a single current account.
        session.flush()
    current = PayoutAccount(
        user_id=user_id,
        bank_code=account.bank_code,
        bank_name=account.bank_name,
        account_number=account.account_number,
        account_name=account.account_name,
        recipient_code=account.recipient_code,
        created_at=act.now,
    )
    session.add(current)
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action="payout_account.change",
        target_type="profile",
        target_id=str(user_id),
        before=None if before is None else {"accountId": str(before.id)},
        after={"accountId": str(current.id)},
    )
    _notify_account_changed(session, current, now=act.now)
    return True


def replace_and_show_account(
    session: Session, *, user_id: UUID, account: PayoutRecipient, act: Act
) -> OwnAccount | None:
    """Replace the bank account like ``replace_payout_account``, and show the current account."""
    replace_payout_account(session, user_id=user_id, account=account, act=act)
    return show_current_account(session, user_id=user_id, now=act.now)


def find_current_account(session: Session, *, user_id: UUID) -> PayoutAccount | None:
    """Find a person's current bank account for payouts."""
    return session.scalar(
        select(PayoutAccount).where(PayoutAccount.user_id == user_id, PayoutAccount.replaced_at.is_(None))
    )


def show_current_account(session: Session, *, user_id: UUID, now: datetime) -> OwnAccount | None:
    """Show a person's current bank account for payouts, if any."""
    account = find_current_account(session, user_id=user_id)
    return None if account is None else _show_account(account, now)


def list_account_history(session: Session, *, user_id: UUID, now: datetime) -> list[OwnAccount]:
    """List a person's latest 50 bank accounts, the current account first."""
    latest = select(PayoutAccount).where(PayoutAccount.user_id == user_id).order_by(PayoutAccount.id.desc())
    return [_show_account(account, now) for account in session.scalars(latest.limit(50))]


def _show_account(account: PayoutAccount, now: datetime) -> OwnAccount:
    held_until = account_held_until(account.created_at)
    return OwnAccount(account, held_until if account.replaced_at is None and held_until > now else None)


def _renew_recipient(session: Session, account: PayoutAccount, recipient_code: str, *, act: Act) -> None:
    """Renew the recipient code of an unchanged account, since the gateway may have deleted the recipient."""
    former_code, account_id = account.recipient_code, str(account.id)
    if former_code == recipient_code:
        return
    account.recipient_code = recipient_code
    record_audit_entry(
        session,
        act=act,
        action="payout_account.renew_recipient",
        target_type="profile",
        target_id=str(account.user_id),
        before={"accountId": account_id, "recipientCode": former_code},
        after={"accountId": account_id, "recipientCode": recipient_code},
    )


def _notify_account_changed(session: Session, account: PayoutAccount, *, now: datetime) -> None:
    """Notify a person at the current contacts and at those of the last 30 days."""
    former = list_former_contacts(
        session, user_id=account.user_id, since=now - _FORMER_CONTACT_PERIOD, limit=20
    )
    body = texts.BANK_ACCOUNT_CHANGED_BODY.format(
        bank_name=account.bank_name,
        last_digits=account.account_number[-VISIBLE_DIGITS:],
        held_until=f"{account_held_until(now):%d %B %Y, %H:%M}",
    )
    for contact in (None, *former):
        notify(
            session,
            user_id=account.user_id,
            type="bank_account_changed",
            title=texts.BANK_ACCOUNT_CHANGED_TITLE,
            body=body,
            link="/payouts",
            cause=f"payout_account:{account.id}" + (f":former:{contact}" if contact else ""),
            former_contact_id=contact,
            now=now,
        )
