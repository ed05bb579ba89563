"""Work of the staff: a proposal, a payout batch, a reconciliation, an event of the gateway and an incident."""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from commands.seeding.loading import fixed_ids
from commands.seeding.people import STORES
from marketplace.audit.operations import Act
from marketplace.health.incidents import open_incident
from marketplace.health.models import Incident
from marketplace.kernel import demo_ids
from marketplace.kernel.demo_ids import SeededKind
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.payouts.batches.staging import stage_batch
from marketplace.payouts.models import PayoutBatch
from marketplace.proposals.models import PlatformProposal
from marketplace.proposals.operations import propose
from marketplace.reconciliation import run
from marketplace.reconciliation.models import Reconciliation
from marketplace.webhooks.inbox import GATEWAY, process_event_in_transaction
from marketplace.webhooks.models import InboxEvent

# The store of the payout batch. Other stores keep their balances, so that officers can stage another batch.
_PAID_STORE = STORES[1]
_KINDS = {
    PlatformProposal: SeededKind.PROPOSAL,
    PayoutBatch: SeededKind.PAYOUT_BATCH,
    Incident: SeededKind.INCIDENT,
}
# The service ignores events of this type.
_EVENT_BODY = b'{"event":"subscription.create","data":{"id":7001,"status":"active"}}'


def load_staff_work(session: Session, *, now: datetime) -> int:
    """Create the missing work of the staff. Without paid orders the batch and the reconciliation are left out.

    :param now: present time
    :return: number of new rows
    """
    missing: list[Callable[[Session, datetime], None]] = []
    balances = fetch_balances_by_kind(session)
    if session.get(PlatformProposal, demo_ids.PROPOSAL) is None:
        missing.append(_file_proposal)
    if session.get(Incident, demo_ids.INCIDENT) is None:
        missing.append(_announce_incident)
    if session.get(InboxEvent, demo_ids.WEBHOOK) is None:
        missing.append(_receive_event)
    if balances.get("vendor_payable") and session.get(PayoutBatch, demo_ids.PAYOUT_BATCH) is None:
        missing.append(_stage_batch)
    if balances.get("gateway_clearing") and session.get(Reconciliation, demo_ids.RECONCILIATION) is None:
        missing.append(_record_reconciliation)
    with fixed_ids(session, _KINDS):
        for create in missing:
            create(session, now)
            session.flush()
    return len(missing)


def _file_proposal(session: Session, now: datetime) -> None:
    propose(
        session,
        act=Act("admin", now, user_id=demo_ids.ADMIN),
        kind="fee",
        payload={"key": "service_fee_minor", "value": 15_000},
        reason="Card fees rose this year.",
    )


def _announce_incident(session: Session, now: datetime) -> None:
    open_incident(
        session,
        act=Act("admin", now, user_id=demo_ids.ADMIN),
        title="Bank transfers arrive late",
        impact="minor",
        components=[],
        message="Payments by bank transfer arrive up to an hour late. Card payments are not affected.",
    )


def _receive_event(session: Session, now: datetime) -> None:
    session.add(
        InboxEvent(id=demo_ids.WEBHOOK, provider=GATEWAY, body=_EVENT_BODY, received_at=now, due_at=now)
    )
    session.flush()
    process_event_in_transaction(session, inbox_id=demo_ids.WEBHOOK, fee_bearer="platform", now=now)


def _stage_batch(session: Session, now: datetime) -> None:
    act = Act("finance", now, user_id=demo_ids.FINANCE)
    stage_batch(session, act=act, vendor_ids=[_PAID_STORE.id])


def _record_reconciliation(session: Session, now: datetime) -> None:
    # A real run would compare all payments at the gateway, which other databases may share.
    clearing_minor = fetch_balances_by_kind(session)["gateway_clearing"]
    session.add(
        Reconciliation(
            id=demo_ids.RECONCILIATION,
            status=run.MATCHED,
            started_by=run.SCHEDULE,
            starts=now - timedelta(days=1),
            ends=now - timedelta(hours=1),
            gateway_minor=clearing_minor,
            books_minor=clearing_minor,
            in_flight_minor=0,
            drift_minor=0,
            created_at=now - timedelta(hours=1),
            finished_at=now - timedelta(hours=1),
        )
    )
