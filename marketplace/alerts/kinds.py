"""All alerts that there are, in one table: how bad each is, what it means, and what is done first.

An alert is one rule more here, and a call of ``raise_alert`` where the rule is broken.
"""

from dataclasses import dataclass
from typing import Literal

from marketplace.identity.permissions import MANAGE_FINANCES, MANAGE_PLATFORM

AlertIdentifier = Literal[
    "ESCROW_DRIFT",
    "REFUND_SENT_TWICE",
    "REFUND_CAME_BACK",
    "GATEWAY_KEY_REFUSED",
    "GATEWAY_UNREACHABLE",
    "WEBHOOK_DEAD",
    "OUTBOX_GIVEN_UP",
    "PERIODIC_TASK_FAILING",
    "CHARGE_DISPUTED",
    "CHARGE_DISPUTE_RESOLVED",
    "CHARGE_DISPUTE_UNCLEAR",
    "PAYOUT_EXCEPTION",
    "TRANSFER_UNKNOWN",
    "TRANSFER_UNKNOWN_FAILED",
    "TRANSFER_DIFFERS",
    "TRANSFER_SENT_AFTER_ALL",
    "TRANSFER_UNSETTLED",
    "TRANSFER_WANTS_OTP",
    "PAYOUT_FUNDS_SHORT",
    "PAYOUTS_REFUSED",
    "PAYOUT_STALLED",
    "REFUND_REFUSED",
    "REFUND_UNKNOWN",
    "REFUND_AMOUNT_DIFFERS",
    "REFUND_ID_DIFFERS",
    "REFUND_STUCK",
    "CHARGE_QUARANTINED",
    "PAYMENT_STALLED",
]
Severity = Literal["SEV-1", "SEV-2", "SEV-3"]
# Within how many minutes somebody looks at it; the worst comes first.
RESPONSE_MINUTES: dict[Severity, int] = {"SEV-1": 15, "SEV-2": 30, "SEV-3": 240}
SEVERITIES: tuple[Severity, ...] = tuple(RESPONSE_MINUTES)


@dataclass(frozen=True)
class AlertKind:
    """A kind of alert.

    :param severity: unless it is raised with another one
    :param subject_description: what its subject names: there is one open alert of the kind for each
    :param meaning: what happened, for somebody who was just woken up
    :param first_step: what the operator does first
    :param resolution_rule: how it is resolved
    :param permission: what staff need who resolve it by hand
    """

    severity: Severity
    subject_description: str
    meaning: str
    first_step: str
    resolution_rule: str
    permission: str


_RESOLVED_BY_OFFICER = "by an officer"
_RESOLVED_WHEN_REFUND_PROCEEDS = "when the refund moves on, or by an officer"

ALERT_KINDS: dict[str, AlertKind] = {
    "ESCROW_DRIFT": AlertKind(
        "SEV-1",
        "a rule of the books, or the gateway's balance",
        "A rule of the books does not hold, or the gateway does not hold what the books say: money is missing, or"
        " stands where it does not belong. Payouts stand still from now on.",
        "Stop moving money: approve no refund and no ruling. `marketplace ledger verify` names the rows, `marketplace"
        " payouts reconcile` what differs at the gateway; a correction is a new transaction, never an edit. Then two"
        " officers resume payouts: a proposal `payout_resume`.",
        "by the next check of the books that finds the rule to hold, or reconciliation that matches",
        MANAGE_FINANCES,
    ),
    "REFUND_SENT_TWICE": AlertKind(
        "SEV-1",
        "a refund",
        "The gateway says that it sent a refund which the buyer has had otherwise: credited to the wallet, or by"
        " another try. It is booked so: the wallet gave back what it had, and the buyer owes the rest.",
        "`GET /api/payments/refunds?status=paid_twice`: what the buyer still owes. Look at the gateway why it sent it.",
        "when the money comes back to the gateway, or by an officer",
        MANAGE_FINANCES,
    ),
    "REFUND_CAME_BACK": AlertKind(
        "SEV-1",
        "a refund",
        "The gateway says that a refund failed which it had said was sent. It is booked so: the money is ours to give"
        " back again.",
        "`GET /api/payments/refunds?status=failed`; ask the gateway why, then try again"
        " (`POST /api/payments/refunds/:id/retry`) or credit the wallet (`.../credit`).",
        _RESOLVED_WHEN_REFUND_PROCEEDS,
        MANAGE_FINANCES,
    ),
    "GATEWAY_KEY_REFUSED": AlertKind(
        "SEV-1",
        "the payment gateway",
        "The payment gateway refuses our key: nobody can pay, and no refund is sent.",
        "`marketplace config get GATEWAY_SECRET_KEY`, compare it with the gateway's dashboard, restart the"
        " processes with the right one. Refunds go on by themselves.",
        "by the next refund that the gateway takes, or by an officer",
        MANAGE_PLATFORM,
    ),
    "GATEWAY_UNREACHABLE": AlertKind(
        "SEV-2",
        "the payment gateway",
        "The payment gateway has not answered for minutes: orders whose time is over can't be decided on, and keep"
        " their stock.",
        "Look at the gateway's status page and at `/health/ready`. Nothing is lost: the sweep goes on when it answers.",
        "by the next sweep that has something to ask and is answered",
        MANAGE_PLATFORM,
    ),
    "WEBHOOK_DEAD": AlertKind(
        "SEV-2",
        "a type of event",
        "An event was given up after six tries, or can never be processed; what it told has had no effect.",
        "`marketplace webhooks list --status dead`, then `marketplace webhooks show ID`. Once its cause is mended:"
        " `marketplace webhooks replay`, with `--dry-run` first.",
        "when no event of the type is dead any more, or by an officer",
        MANAGE_PLATFORM,
    ),
    "OUTBOX_GIVEN_UP": AlertKind(
        "SEV-2",
        "a kind of work",
        "Work that was handed on was given up after its last try, almost a day after the first (22 h 45 min).",
        "The facts name the event and its last error; the worker's log has the trace (`outbox event failed`),"
        " or that a worker died (`worker died at row`). Refunds are handed on again by `requery-refunds`, payouts by"
        " `requery-transfers`.",
        _RESOLVED_BY_OFFICER,
        MANAGE_PLATFORM,
    ),
    "PERIODIC_TASK_FAILING": AlertKind(
        "SEV-2",
        "a periodic task",
        "A periodic task has failed, or was lost with its worker, three times in a row: what it does is not done.",
        "`marketplace periodic show NAME` has the error's type, the worker's log its trace (`periodic task failed`)."
        " Once its cause is mended: `marketplace periodic run NAME`.",
        "by its next run that succeeds",
        MANAGE_PLATFORM,
    ),
    "CHARGE_DISPUTED": AlertKind(
        "SEV-2",
        "a dispute of the gateway's",
        "A customer disputes a charge at their bank. What escrow still holds of its orders is frozen; of what was"
        " released already there is nothing to freeze (the facts say which).",
        "Answer at the gateway before its deadline, with the order's trail (`GET /api/orders/:id/events`). The"
        " order is not refunded meanwhile: the bank may pay the buyer too. Refunds that were not sent yet wait"
        " (`refundsWaiting` in the facts), and are sent if the dispute is won.",
        "when the gateway tells how it ended, or by an officer",
        MANAGE_FINANCES,
    ),
    "CHARGE_DISPUTE_RESOLVED": AlertKind(
        "SEV-2",
        "a dispute of the gateway's",
        "A customer's bank has decided on a disputed charge: in our favour (SEV-3), or the money was taken from us.",
        "Orders whose money escrow held stay frozen until staff rule on them: where the money was taken, the buyer has"
        " it, so do not refund the order as well. What was taken is booked (`booked` in the facts): of what was out of"
        " escrow, the vendor owes it, or the buyer whom it reached twice; what we were about to send is not sent.",
        _RESOLVED_BY_OFFICER,
        MANAGE_FINANCES,
    ),
    "CHARGE_DISPUTE_UNCLEAR": AlertKind(
        "SEV-2",
        "a dispute of the gateway's",
        "The gateway says that a dispute of a charge is over, in a word that this service does not know (`resolution`"
        " in the facts): it may have taken the money or not. Nothing was booked; orders stay frozen, refunds wait.",
        "Look at the gateway who won. Have it tell that in its own two words, by another `charge.dispute.resolve`: what"
        " it took is booked by that alone, and what waits is sent, or not. Refund nothing of the charge until then.",
        "when the gateway tells who won, or by an officer",
        MANAGE_FINANCES,
    ),
    "TRANSFER_DIFFERS": AlertKind(
        "SEV-1",
        "a payout",
        "The gateway tells of another amount than the payout has. Nothing of what it says is booked.",
        "Compare both at the gateway: the facts have the amounts. What really left is booked once that is clear;"
        " approve and dispatch nothing until then.",
        "when the payout is settled, or by an officer",
        MANAGE_FINANCES,
    ),
    "TRANSFER_SENT_AFTER_ALL": AlertKind(
        "SEV-1",
        "a payout",
        "The gateway says that it sent a payout which it had said had failed, or had come back. The payee has the"
        " amount in the books too by now. It is booked as sent, and what the payee owes for it is collected.",
        "Ask the gateway why. The facts have the reference; the debt is in the payee's receivable account, and comes"
        " off what they get next.",
        _RESOLVED_BY_OFFICER,
        MANAGE_FINANCES,
    ),
    "PAYOUT_EXCEPTION": AlertKind(
        "SEV-2",
        "a transfer",
        "A transfer to a bank account failed, or came back after it had succeeded. The money is back in the payee's"
        " balance, and they were told.",
        "`GET /api/payouts/exceptions` has the gateway's id: look there why. Then"
        " `POST /api/payouts/exceptions/:id/resolve`.",
        "when the exception is resolved, or by an officer",
        MANAGE_FINANCES,
    ),
    "TRANSFER_UNKNOWN": AlertKind(
        "SEV-2",
        "a transfer",
        "The gateway sent money to a bank account, and this service did not ask it to.",
        "`GET /api/payouts/exceptions` has the gateway's id: look there who made it. If nobody of yours did, change"
        " the secret key there and here.",
        "when the exception is resolved, or by an officer",
        MANAGE_FINANCES,
    ),
    "TRANSFER_UNKNOWN_FAILED": AlertKind(
        "SEV-2",
        "the payment gateway",
        "Transfers that this service did not ask for failed, or came back. None of them is a payout of ours, and"
        " nothing was booked.",
        "`GET /api/payouts/exceptions` has the gateway's ids: look there who made them. If nobody of yours did, change"
        " the secret key there and here.",
        "when all of these exceptions are resolved, or by an officer",
        MANAGE_FINANCES,
    ),
    "TRANSFER_UNSETTLED": AlertKind(
        "SEV-2",
        "a payout",
        "After five days the gateway still does not say what became of a payout, or does not know it.",
        "Look the reference up at the gateway. Its event settles the payout still; or have it asked again:"
        " `POST /api/payouts/:id/ask`. What the gateway never knew can be given up (`.../give-up`). Where"
        " `keptFromSending` is not empty it was not sent again for these reasons. With `account_replaced` it never is:"
        " give it up, and the next batch pays the payee's new account. Otherwise have it asked again when they are"
        " over, and it is sent; or give it up.",
        "when the payout is settled, or by an officer",
        MANAGE_FINANCES,
    ),
    "TRANSFER_WANTS_OTP": AlertKind(
        "SEV-2",
        "a batch of payouts",
        "Transfers wait at the gateway for a one-time password, which this service does not have.",
        "At the gateway, turn the confirmation of transfers by one-time password off, and confirm those that wait.",
        "when the batch is settled, or by an officer",
        MANAGE_FINANCES,
    ),
    "PAYOUT_FUNDS_SHORT": AlertKind(
        "SEV-2",
        "a batch of payouts",
        "The balance at the gateway does not suffice for the next payouts of a batch. They wait, and are tried again"
        " every five minutes.",
        "Compare the gateway's balance with the books (`gateway_clearing`). Has it settled to the bank too early, top"
        " it up there; else look for drift (`POST /api/payouts/reconcile`).",
        "when the gateway takes payouts of the batch again, or by an officer",
        MANAGE_FINANCES,
    ),
    "PAYOUTS_REFUSED": AlertKind(
        "SEV-2",
        "a batch of payouts",
        "The gateway refuses all payouts that it is told to send, and not for their recipients. They wait, and are"
        " tried again every five minutes.",
        "Look at the gateway whether transfers are switched on for us, and within their limits. The worker's log has"
        " the status (`provider called`, path /transfer).",
        "when the gateway takes payouts of the batch again, or by an officer",
        MANAGE_FINANCES,
    ),
    "PAYOUT_STALLED": AlertKind(
        "SEV-2",
        "a batch of payouts, or those that wait for one",
        "Payouts have waited for more than 48 hours: to be approved, to be sent, or for the gateway's word.",
        "`GET /api/payouts/stalled` lists them. Approve and dispatch the batch, or reject it; of what was sent the"
        " gateway knows more.",
        "when none of them waits any more",
        MANAGE_FINANCES,
    ),
    "REFUND_REFUSED": AlertKind(
        "SEV-2",
        "a refund",
        "The gateway refused to send a refund. The money is still ours to give back.",
        "`GET /api/payments/refunds?status=failed`; see at the gateway why, then try again"
        " (`POST /api/payments/refunds/:id/retry`) or credit the wallet (`.../credit`).",
        _RESOLVED_WHEN_REFUND_PROCEEDS,
        MANAGE_FINANCES,
    ),
    "REFUND_UNKNOWN": AlertKind(
        "SEV-2",
        "a refund",
        "The gateway does not know a refund that it took an hour or more ago.",
        "Look the charge up at the gateway. Nothing is sent again by itself, since it may have been sent.",
        "when the gateway knows it again, or by an officer",
        MANAGE_FINANCES,
    ),
    "REFUND_AMOUNT_DIFFERS": AlertKind(
        "SEV-2",
        "a refund",
        "The gateway tells of another amount than the refund has.",
        "Compare both at the gateway: the facts have the amounts. Once it is sent, credit the refund"
        " (`POST /api/payments/refunds/:id/credit`): what was sent is booked, and the difference goes to the wallet, or"
        " is owed.",
        _RESOLVED_WHEN_REFUND_PROCEEDS,
        MANAGE_FINANCES,
    ),
    "REFUND_ID_DIFFERS": AlertKind(
        "SEV-2",
        "a refund",
        "The gateway has a refund with our note under another id than it told us: it may have sent it twice.",
        "Look the charge's refunds up at the gateway. Nothing was changed here.",
        _RESOLVED_BY_OFFICER,
        MANAGE_FINANCES,
    ),
    "REFUND_STUCK": AlertKind(
        "SEV-3",
        "a refund",
        "A refund failed at the gateway, or needs something of us or of the buyer.",
        "`GET /api/payments/refunds?status=failed` (or `needs_attention`), then retry it, or credit the wallet.",
        _RESOLVED_WHEN_REFUND_PROCEEDS,
        MANAGE_FINANCES,
    ),
    "CHARGE_QUARANTINED": AlertKind(
        "SEV-3",
        "a charge that is held back",
        "A charge could not be applied as it came, and is held back; its orders are unpaid and do not expire.",
        "`GET /api/payments/quarantine`, then `POST /api/payments/quarantine/:id/resolve`: accept the rest, refund it,"
        " or give it to the wallet.",
        "when finance has decided on the charge",
        MANAGE_FINANCES,
    ),
    "PAYMENT_STALLED": AlertKind(
        "SEV-3",
        "a payment",
        "It is unclear for hours whether something was paid: the gateway is still at it, or can't be asked."
        " Its orders keep their stock.",
        "Look the reference up at the gateway. `marketplace periodic run expire-checkouts` asks it once more.",
        "when the payment is settled or over",
        MANAGE_FINANCES,
    ),
}
