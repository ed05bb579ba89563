"""All alerts that there are, in one table: how bad each is, what it means, and what is done first.

An alert is one rule more here, and a call of ``raise_alert`` where the rule is broken.
"""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["SEV-1", "SEV-2", "SEV-3"]
# Within how many minutes somebody looks at it; the worst comes first.
ANSWERED_WITHIN_MINUTES: dict[Severity, int] = {"SEV-1": 15, "SEV-2": 30, "SEV-3": 240}
SEVERITIES: tuple[Severity, ...] = tuple(ANSWERED_WITHIN_MINUTES)

FINANCE = "canManageFinances"
PLATFORM = "canManagePlatform"


@dataclass(frozen=True)
class Kind:
    """A kind of alert.

    :param severity: unless it is raised with another one
    :param about: what its subject names: there is one open alert of the kind for each
    :param meaning: what happened, for somebody who was just woken up
    :param first_step: what the operator does first
    :param ends: how it is resolved
    :param permission: what staff need who resolve it by hand
    """

    severity: Severity
    about: str
    meaning: str
    first_step: str
    ends: str
    permission: str


_OFFICER = "by an officer"
_MOVED_ON = "when the refund moves on, or by an officer"

ESCROW_DRIFT = "ESCROW_DRIFT"
REFUND_SENT_TWICE = "REFUND_SENT_TWICE"
REFUND_CAME_BACK = "REFUND_CAME_BACK"
GATEWAY_KEY_REFUSED = "GATEWAY_KEY_REFUSED"
GATEWAY_UNREACHABLE = "GATEWAY_UNREACHABLE"
WEBHOOK_DEAD = "WEBHOOK_DEAD"
OUTBOX_GIVEN_UP = "OUTBOX_GIVEN_UP"
PERIODIC_TASK_FAILING = "PERIODIC_TASK_FAILING"
CHARGE_DISPUTED = "CHARGE_DISPUTED"
CHARGE_DISPUTE_RESOLVED = "CHARGE_DISPUTE_RESOLVED"
PAYOUT_EXCEPTION = "PAYOUT_EXCEPTION"
TRANSFER_UNKNOWN = "TRANSFER_UNKNOWN"
REFUND_REFUSED = "REFUND_REFUSED"
REFUND_UNKNOWN = "REFUND_UNKNOWN"
REFUND_AMOUNT_DIFFERS = "REFUND_AMOUNT_DIFFERS"
REFUND_ID_DIFFERS = "REFUND_ID_DIFFERS"
REFUND_STUCK = "REFUND_STUCK"
CHARGE_QUARANTINED = "CHARGE_QUARANTINED"
PAYMENT_STALLED = "PAYMENT_STALLED"

KINDS: dict[str, Kind] = {
    ESCROW_DRIFT: Kind(
        "SEV-1",
        "a rule of the books",
        "A rule of the books does not hold: money is missing, or stands where it does not belong.",
        "Stop moving money: approve and send no payout, refund or ruling. `marketplace ledger verify` names the"
        " rows; a correction is a new transaction, never an edit.",
        "by the next check of the books that finds the rule to hold",
        FINANCE,
    ),
    REFUND_SENT_TWICE: Kind(
        "SEV-1",
        "a refund",
        "The gateway says that it sent a refund which the buyer has had otherwise: credited to the wallet, or by"
        " another try. It is booked so: the wallet gave back what it had, and the buyer owes the rest.",
        "`GET /api/payments/refunds?status=paid_twice`: what the buyer still owes. Look at the gateway why it sent it.",
        "when the money comes back to the gateway, or by an officer",
        FINANCE,
    ),
    REFUND_CAME_BACK: Kind(
        "SEV-1",
        "a refund",
        "The gateway says that a refund failed which it had said was sent. It is booked so: the money is ours to give"
        " back again.",
        "`GET /api/payments/refunds?status=failed`; ask the gateway why, then try again"
        " (`POST /api/payments/refunds/:id/retry`) or credit the wallet (`.../credit`).",
        _MOVED_ON,
        FINANCE,
    ),
    GATEWAY_KEY_REFUSED: Kind(
        "SEV-1",
        "the payment gateway",
        "The payment gateway refuses our key: nobody can pay, and no refund is sent.",
        "`marketplace config get GATEWAY_SECRET_KEY`, compare it with the gateway's dashboard, restart the"
        " processes with the right one. Refunds go on by themselves.",
        "by the next refund that the gateway takes, or by an officer",
        PLATFORM,
    ),
    GATEWAY_UNREACHABLE: Kind(
        "SEV-2",
        "the payment gateway",
        "The payment gateway has not answered for minutes: orders whose time is over can't be decided on, and keep"
        " their stock.",
        "Look at the gateway's status page and at `/health/ready`. Nothing is lost: the sweep goes on when it answers.",
        "by the next sweep that has something to ask and is answered",
        PLATFORM,
    ),
    WEBHOOK_DEAD: Kind(
        "SEV-2",
        "a type of event",
        "An event was given up after six tries, or can never be processed; what it told has had no effect.",
        "`marketplace webhooks list --status dead`, then `marketplace webhooks show ID`. Once its cause is mended:"
        " `marketplace webhooks replay`, with `--dry-run` first.",
        "when no event of the type is dead any more, or by an officer",
        PLATFORM,
    ),
    OUTBOX_GIVEN_UP: Kind(
        "SEV-2",
        "a kind of work",
        "Work that was handed on was given up after its last try, almost a day after the first (22 h 45 min).",
        "The facts name the event and its last error; the worker's log has the trace (`outbox event failed`)."
        " Refunds are handed on again by `requery-refunds`.",
        _OFFICER,
        PLATFORM,
    ),
    PERIODIC_TASK_FAILING: Kind(
        "SEV-2",
        "a periodic task",
        "A periodic task has failed, or was lost with its worker, three times in a row: what it does is not done.",
        "`marketplace periodic show NAME` has the error's type, the worker's log its trace (`periodic task failed`)."
        " Once its cause is mended: `marketplace periodic run NAME`.",
        "by its next run that succeeds",
        PLATFORM,
    ),
    CHARGE_DISPUTED: Kind(
        "SEV-2",
        "a dispute of the gateway's",
        "A customer disputes a charge at their bank. What escrow still holds of its orders is frozen; of what was"
        " released already there is nothing to freeze (the facts say which).",
        "Answer at the gateway before its deadline, with the order's trail (`GET /api/orders/:id/events`). Do not"
        " refund the order meanwhile: the bank may pay the buyer too.",
        "when the gateway tells how it ended, or by an officer",
        FINANCE,
    ),
    CHARGE_DISPUTE_RESOLVED: Kind(
        "SEV-2",
        "a dispute of the gateway's",
        "A customer's bank has decided on a disputed charge: in our favour (SEV-3), or the money was taken from us.",
        "Its orders stay frozen until staff rule on them. Where the money was taken, the buyer has it: do not refund"
        " the order as well, and compare the gateway's balance with the books (`gateway_clearing`).",
        _OFFICER,
        FINANCE,
    ),
    PAYOUT_EXCEPTION: Kind(
        "SEV-2",
        "a transfer",
        "A transfer to a bank account failed, or came back after it had succeeded.",
        "The row in `payout_exceptions` has the gateway's id: look there why it failed, and where the money is.",
        _OFFICER,
        FINANCE,
    ),
    TRANSFER_UNKNOWN: Kind(
        "SEV-2",
        "a transfer",
        "The gateway sent money to a bank account, and this service did not ask it to.",
        "The row in `payout_exceptions` has the gateway's id: look there who made it. If nobody of yours did, change"
        " the secret key there and here.",
        _OFFICER,
        FINANCE,
    ),
    REFUND_REFUSED: Kind(
        "SEV-2",
        "a refund",
        "The gateway refused to send a refund. The money is still ours to give back.",
        "`GET /api/payments/refunds?status=failed`; see at the gateway why, then try again"
        " (`POST /api/payments/refunds/:id/retry`) or credit the wallet (`.../credit`).",
        _MOVED_ON,
        FINANCE,
    ),
    REFUND_UNKNOWN: Kind(
        "SEV-2",
        "a refund",
        "The gateway does not know a refund that it took an hour or more ago.",
        "Look the charge up at the gateway. Nothing is sent again by itself, since it may have been sent.",
        "when the gateway knows it again, or by an officer",
        FINANCE,
    ),
    REFUND_AMOUNT_DIFFERS: Kind(
        "SEV-2",
        "a refund",
        "The gateway tells of another amount than the refund has.",
        "Compare both at the gateway: the facts have the amounts. Nothing is booked until finance has decided.",
        _MOVED_ON,
        FINANCE,
    ),
    REFUND_ID_DIFFERS: Kind(
        "SEV-2",
        "a refund",
        "The gateway has a refund with our note under another id than it told us: it may have sent it twice.",
        "Look the charge's refunds up at the gateway. Nothing was changed here.",
        _OFFICER,
        FINANCE,
    ),
    REFUND_STUCK: Kind(
        "SEV-3",
        "a refund",
        "A refund failed at the gateway, or needs something of us or of the buyer.",
        "`GET /api/payments/refunds?status=failed` (or `needs_attention`), then retry it, or credit the wallet.",
        _MOVED_ON,
        FINANCE,
    ),
    CHARGE_QUARANTINED: Kind(
        "SEV-3",
        "a charge that is held back",
        "A charge could not be applied as it came, and is held back; its orders are unpaid and do not expire.",
        "`GET /api/payments/quarantine`, then `POST /api/payments/quarantine/:id/resolve`: accept the rest, refund it,"
        " or give it to the wallet.",
        "when finance has decided on the charge",
        FINANCE,
    ),
    PAYMENT_STALLED: Kind(
        "SEV-3",
        "a payment",
        "It is unclear for hours whether something was paid: the gateway is still at it, or can't be asked."
        " Its orders keep their stock.",
        "Look the reference up at the gateway. `marketplace periodic run expire-checkouts` asks it once more.",
        "when the payment is settled or over",
        FINANCE,
    ),
}
