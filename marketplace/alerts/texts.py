"""Texts of all alerts: subject, meaning, first steps and resolution, and the messages that channels send.

Write for an operator just woken up: at most three sentences of meaning, then numbered steps with the exact command or
route. Routes need the token of an officer.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class AlertTexts:
    """The texts of an alert's kind.

    :param subject: the thing concerned; a single alert is open for each subject
    :param meaning: the incident and the effect
    :param first_step: numbered steps for the operator, in a single line
    :param resolution: when the alert ends, and whether an officer must resolve the alert
    """

    subject: str
    meaning: str
    first_step: str
    resolution: str


ESCROW_DRIFT = AlertTexts(
    subject="an invariant of the ledger, or the gateway's balance",
    meaning=(
        "An invariant of the ledger is broken, or the gateway's balance differs from the ledger."
        " Money may be missing or in the wrong account. Payouts are halted."
    ),
    first_step=(
        "1. Refund no order until the cause is known. 2. Run `marketplace ledger verify` to list the broken rows, and"
        " `marketplace payouts reconcile` to list differences to the gateway. 3. Resolve the differences, and hand a"
        " broken invariant to an engineer. 4. Have an officer with `canManagePlatform` propose to resume payouts"
        " (`POST /api/platform/proposals` with kind `payout_resume`), and another officer approve the proposal."
    ),
    resolution=(
        "Ends when the next check finds the invariant intact or the next reconciliation matches."
        " An officer can resolve it too."
    ),
)
REFUND_SENT_TWICE = AlertTexts(
    subject="a refund",
    meaning=(
        "The gateway sent a refund, but the buyer already has the money as a wallet credit or from another attempt."
        " The duplicate is posted. The amount was taken from the buyer's wallet, and the buyer owes the rest."
    ),
    first_step=(
        "1. Find the refund and the buyer's debt: `GET /api/payments/refunds?status=paid_twice`."
        " 2. Ask the gateway why the refund was sent, with `paymentReference` of that list."
        " 3. Send no further refund for this order until the cause is known."
    ),
    resolution="Ends when the duplicate returns to the gateway, or an officer resolves it.",
)
REFUND_CAME_BACK = AlertTexts(
    subject="a refund",
    meaning=(
        "The gateway first reported this refund as sent and now reports it as failed."
        " The buyer does not have the money. The ledger has the amount as refundable again."
    ),
    first_step=(
        "1. Find the refund: `GET /api/payments/refunds?status=failed`. 2. Ask the gateway for the cause."
        " 3. If the cause has passed, retry the refund: `POST /api/payments/refunds/:id/retry`. If the bank cannot"
        " receive it, credit the wallet: `POST /api/payments/refunds/:id/credit`."
    ),
    resolution="Ends when the refund is retried, sent or credited, or an officer resolves it.",
)
ERR_API_SPIKE = AlertTexts(
    subject="the API",
    meaning="More than 2 % of the requests of five minutes ended with a server error.",
    first_step=(
        "1. Open `GET /health` and find a dependency with a fault. 2. Find `unhandled error` in the logs of the web"
        " processes: `correlationId` leads to the cause. 3. If a release is the cause, start the version before."
    ),
    resolution="Ends when at most 2 % of the requests of five minutes end with a server error.",
)
DB_POOL_SATURATED = AlertTexts(
    subject="the connection pools",
    meaning=(
        "For three minutes, more than 85 % of the database connections of all processes were in use, or each minute had"
        " time-outs of the wait for a connection. Such requests end with 503."
    ),
    first_step=(
        "1. Read the slowest statements in the facts. 2. Find long transactions in `pg_stat_activity`, and end the"
        " cause. 3. If the load is genuine, start more processes, or raise `DATABASE_POOL_SIZE` within the server's"
        " `max_connections`."
    ),
    resolution="Ends with a minute without time-outs in which at most 85 % of the connections are in use.",
)
PAYMENT_WEBHOOK_FAIL = AlertTexts(
    subject="webhooks of a provider",
    meaning=(
        "More than five webhooks in five minutes had a wrong signature. Addresses that send many are barred."
        " Either the signing secret has changed, or an unknown sender forges events."
    ),
    first_step=(
        "1. Compare the signing secret in the provider's dashboard with `GATEWAY_SECRET_KEY` or"
        " `MESSAGING_APP_SECRET`. 2. If they are equal, find the addresses in the proxy's log and block them there."
        " 3. If they differ, correct the setting. The provider delivers the events again."
    ),
    resolution="Ends when at most five webhooks of five minutes have a wrong signature.",
)
QUEUE_STALL = AlertTexts(
    subject="a background queue",
    meaning=(
        "The oldest job of a queue has waited for more than two minutes."
        " Notifications, payments or periodic tasks are late. A second worker was requested."
    ),
    first_step=(
        "1. Show the queues and workers: `marketplace queues`, `marketplace workers`. 2. Restart a worker that does not"
        " answer. 3. If all workers are busy, start more: `python -m tasks.worker QUEUE`. Work that was started"
        " is not lost."
    ),
    resolution="Ends when no job of the queue has waited for more than two minutes.",
)
SLO_BURN = AlertTexts(
    subject="a service objective",
    meaning=(
        "The error budget of the objective burns too fast: 14.4 times in an hour or in six hours (SEV-1), 6 times in"
        " six hours (SEV-2), or faster than allowed for three days (SEV-3)."
    ),
    first_step=(
        "1. Read the objective and its burn rates: `GET /api/admin/slo`. 2. Find the cause in `GET /health` and in the"
        " logs of slow or failed requests. 3. If a release is the cause, start the version before. With little budget"
        " left, release only repairs."
    ),
    resolution="Ends when no rule of the burn rates holds.",
)
GATEWAY_KEY_REFUSED = AlertTexts(
    subject="the payment gateway",
    meaning=(
        "The payment gateway refuses our secret key. Buyers cannot pay, and no refund or payout is sent."
    ),
    first_step=(
        "1. Open the API keys in the gateway's dashboard. 2. Compare the secret key there with `GATEWAY_SECRET_KEY`"
        " in the installation's secret store. 3. Correct the setting and restart all web processes and workers."
        " Refunds and payouts then continue automatically."
    ),
    resolution="Ends when the gateway accepts the next refund or payout, or an officer resolves it.",
)
GATEWAY_UNREACHABLE = AlertTexts(
    subject="the payment gateway",
    meaning=(
        "The payment gateway has not answered for at least five minutes."
        " Overdue unpaid orders cannot expire and keep their stock reserved. No payment is lost."
    ),
    first_step=(
        "1. Check the gateway's status page. 2. Find the reason in the worker's log (`provider unavailable`), and check"
        " the worker's network. 3. Wait: the sweeps continue when the gateway answers. To try at once, run"
        " `marketplace periodic run expire-checkouts`."
    ),
    resolution=(
        "Ends when the gateway answers a sweep of overdue orders or refunds, or an officer resolves it."
    ),
)
WEBHOOK_DEAD = AlertTexts(
    subject="a type of event",
    meaning=(
        "An event failed six times, or can never be processed."
        " The event had no effect: a payment, refund or payout may be missing a status."
    ),
    first_step=(
        "1. List the events: `marketplace webhooks list --state dead`. 2. Read the last error:"
        " `marketplace webhooks show ID`. 3. Find the error in docs/dead-letters.md and correct the cause."
        " 4. Replay the event:"
        " `marketplace webhooks replay --id ID --dry-run`, then without `--dry-run`."
    ),
    resolution="Ends when no event of the type is dead, or an officer resolves it.",
)
OUTBOX_GIVEN_UP = AlertTexts(
    subject="a topic of the outbox",
    meaning=(
        "A task failed on the last try, almost 23 hours after the first try."
        " The worker does not retry the task any more."
    ),
    first_step=(
        "1. Read the event's id and last error in the facts. 2. Find the trace in the worker's log: `outbox event"
        " failed`, or `worker died at row`. 3. Correct the cause. 4. Enqueue refunds again with"
        " `marketplace periodic run requery-refunds`, payouts with `marketplace periodic run requery-transfers`."
    ),
    resolution="An officer must resolve it.",
)
PERIODIC_TASK_FAILING = AlertTexts(
    subject="a periodic task",
    meaning=(
        "A periodic task failed, or was lost with its worker, three times in a row."
        " The work of the task is not done."
    ),
    first_step=(
        "1. Read the error: `marketplace periodic show NAME`. 2. Find the trace in the worker's log: `periodic task"
        " failed`. 3. Correct the cause. 4. Run the task: `marketplace periodic run NAME`."
    ),
    resolution="Ends when the task succeeds, or an officer resolves it.",
)
CHARGE_DISPUTED = AlertTexts(
    subject="a gateway dispute",
    meaning=(
        "A buyer disputes a charge at the bank."
        " Orders with money in escrow are frozen; money that was released cannot be frozen."
        " Unsent refunds of the charge wait for the outcome (`refundsWaiting` in the facts)."
    ),
    first_step=(
        "1. Read the deadline `dueAt` and the orders in the facts. 2. Collect the evidence:"
        " `GET /api/orders/:id/events`. 3. Answer the dispute in the gateway's dashboard before the deadline."
        " 4. Do not refund the orders meanwhile: the bank may return the money too."
    ),
    resolution="Ends when the gateway reports the outcome, or an officer resolves it.",
)
CHARGE_DISPUTE_RESOLVED = AlertTexts(
    subject="a gateway dispute",
    meaning=(
        "The bank decided a disputed charge: in our favour (SEV-3), or the money went back to the buyer (SEV-2)."
        " A loss is posted to the vendor, the platform or the buyer (`booked` in the facts). Frozen orders stay frozen."
    ),
    first_step=(
        "1. Read `inOurFavour` and `orders` in the facts. 2. If the dispute was lost, do not refund the orders: the"
        " bank has already repaid the buyer. 3. Record the frozen orders. Each needs a ruling by staff, for which there"
        " is no route yet. 4. Resolve this alert: `marketplace alerts resolve ID --note ...`."
    ),
    resolution="An officer must resolve it.",
)
CHARGE_DISPUTE_UNCLEAR = AlertTexts(
    subject="a gateway dispute",
    meaning=(
        "The gateway closed a dispute with an outcome that this service does not know (`resolution` in the facts)."
        " Nothing was posted: the bank may or may not have returned the money."
        " Orders stay frozen and refunds wait."
    ),
    first_step=(
        "1. Check the outcome in the gateway's dashboard. 2. Have the gateway resend `charge.dispute.resolve` with"
        " `declined` or `merchant-accepted`. The loss is then posted, and waiting refunds continue or are cancelled."
        " 3. Refund nothing of this charge until then."
    ),
    resolution="Ends when the gateway reports a known outcome, or an officer resolves it.",
)
PAYOUT_EXCEPTION = AlertTexts(
    subject="a transfer",
    meaning=(
        "A transfer to a bank account failed, or was reversed after it had succeeded."
        " The amount is back in the payee's balance, and the payee was notified."
    ),
    first_step=(
        "1. Find the gateway's id: `GET /api/payouts/exceptions`. 2. Look up the cause in the gateway's dashboard."
        " 3. Record the result: `POST /api/payouts/exceptions/:id/resolve` with a note. The next batch pays a vendor"
        " again; the owner of a wallet must request the withdrawal again."
    ),
    resolution="Ends when the exception is resolved, or an officer resolves the alert.",
)
TRANSFER_UNKNOWN = AlertTexts(
    subject="a transfer",
    meaning=(
        "The gateway sent money to a bank account, and this service did not request the transfer."
        " The secret key may be in the wrong hands."
    ),
    first_step=(
        "1. Find out in the gateway's dashboard which account or key made the transfer. 2. If no colleague made it,"
        " replace the secret key at the gateway at once. Then change `GATEWAY_SECRET_KEY` and restart all processes."
        " 3. Find the exception: `GET /api/payouts/exceptions?status=open`."
        " 4. Record the result: `POST /api/payouts/exceptions/:id/resolve`."
    ),
    resolution="Ends when the exception is resolved, or an officer resolves the alert.",
)
TRANSFER_UNKNOWN_FAILED = AlertTexts(
    subject="the payment gateway",
    meaning=(
        "Transfers that this service did not request failed or were reversed."
        " Nothing was posted. The secret key may be in the wrong hands."
    ),
    first_step=(
        "1. Find out in the gateway's dashboard which account or key made the transfers. 2. If no colleague made them,"
        " replace the secret key at the gateway at once. Then change `GATEWAY_SECRET_KEY` and restart all processes."
        " 3. Find the exceptions: `GET /api/payouts/exceptions?status=open`."
        " 4. Resolve each exception: `POST /api/payouts/exceptions/:id/resolve`."
    ),
    resolution="Ends when all of these exceptions are resolved, or an officer resolves the alert.",
)
TRANSFER_DIFFERS = AlertTexts(
    subject="a payout",
    meaning=(
        "The gateway reports another amount or currency than the payout has."
        " The report was not posted, and the payout keeps its status."
    ),
    first_step=(
        "1. Do not approve or dispatch payouts. 2. Compare the payout in the gateway's dashboard with the facts:"
        " `amountMinor` here, `toldMinor` at the gateway. 3. Ask the gateway which amount left, with the reference in"
        " the facts. The payout is posted only when the gateway reports the amount of the payout."
    ),
    resolution="Ends when the payout has a final status, or an officer resolves it.",
)
TRANSFER_SENT_AFTER_ALL = AlertTexts(
    subject="a payout",
    meaning=(
        "The gateway reports a payout as sent that it first reported as failed or reversed."
        " The payee had already got the amount back in the balance. The payout is posted as sent, and"
        " the payee owes any part that the balance does not cover."
    ),
    first_step=(
        "1. Ask the gateway for the cause, with the reference in the facts. 2. For a vendor, look up the debt:"
        " `GET /api/payouts/receivables`. The debt is collected from the payee's next amounts."
    ),
    resolution="An officer must resolve it.",
)
TRANSFER_UNSETTLED = AlertTexts(
    subject="a payout",
    meaning=(
        "A payout has no final status five days after it was sent."
        " The gateway reports none, or does not know the payout (`knownAtGateway` in the facts)."
    ),
    first_step=(
        "1. Look up the reference in the gateway's dashboard. 2. Poll again: `POST /api/payouts/:id/ask`. An unknown"
        " payout is then sent, unless `keptFromSending` in the facts names a reason. 3. If the gateway never knew the"
        " payout, void it: `POST /api/payouts/:id/give-up`. With the reason `account_replaced`, always void it: the"
        " next batch pays the new account."
    ),
    resolution="Ends when the payout has a final status, or an officer resolves it.",
)
TRANSFER_WANTS_OTP = AlertTexts(
    subject="a batch of payouts",
    meaning=(
        "Transfers wait at the gateway for a one-time password."
        " This service cannot enter one, so the payouts of the batch are not paid."
    ),
    first_step=(
        "1. Confirm the waiting transfers in the gateway's dashboard."
        " 2. Switch off the one-time password for transfers in the gateway's settings."
    ),
    resolution="Ends when all payouts of the batch have a final status, or an officer resolves it.",
)
PAYOUT_FUNDS_SHORT = AlertTexts(
    subject="a batch of payouts",
    meaning=(
        "The gateway's balance is too low for the next payouts of a batch."
        " The payouts wait, and the worker retries them every five minutes."
    ),
    first_step=(
        "1. Compare the gateway's balance with the account `gateway_clearing` of the ledger: run `marketplace payouts"
        " reconcile`. 2. If the gateway settled to our bank too early, top up the balance there."
        " 3. If reconciliation shows drift, follow the alert ESCROW_DRIFT."
    ),
    resolution="Ends when the gateway accepts payouts of the batch again, or an officer resolves it.",
)
PAYOUTS_REFUSED = AlertTexts(
    subject="a batch of payouts",
    meaning=(
        "The gateway refuses all payouts of a batch, for a reason other than the recipients."
        " The payouts wait, and the worker retries them every five minutes."
    ),
    first_step=(
        "1. Find the HTTP status in the facts (`refusedWith`) and in the worker's log (`provider called`, path"
        " /transfer). 2. Check in the gateway's dashboard that transfers are switched on for this account."
        " 3. Check the gateway's transfer limits."
    ),
    resolution="Ends when the gateway accepts payouts of the batch again, or an officer resolves it.",
)
PAYOUT_STALLED = AlertTexts(
    subject="a batch of payouts, or the payouts without a batch",
    meaning=(
        "Payouts have waited for more than 48 hours: for approval, for dispatch, or for the gateway's final status."
    ),
    first_step=(
        "1. List the payouts: `GET /api/payouts/stalled`. 2. Approve and dispatch a waiting batch"
        " (`POST /api/payouts/batches/:id/approve`, `POST /api/payouts/dispatch`), or reject the batch"
        " (`POST /api/payouts/batches/:id/reject`). 3. For a payout that was sent, look up the reference in the"
        " gateway's dashboard and poll: `POST /api/payouts/:id/ask`."
    ),
    resolution="Ends when no payout of the batch waits any more, or an officer resolves it.",
)
REFUND_REFUSED = AlertTexts(
    subject="a refund",
    meaning="The gateway refused to send a refund, so the refund has failed. The buyer does not have the money.",
    first_step=(
        "1. Find the refund: `GET /api/payments/refunds?status=failed`. 2. Look up the cause in the gateway's"
        " dashboard. 3. Retry the refund (`POST /api/payments/refunds/:id/retry`) or credit the buyer's wallet"
        " (`POST /api/payments/refunds/:id/credit`)."
    ),
    resolution="Ends when the refund is retried, sent or credited, or an officer resolves it.",
)
REFUND_UNKNOWN = AlertTexts(
    subject="a refund",
    meaning=(
        "The gateway accepted a refund an hour or more ago and does not know it now."
        " The refund may have been sent, so nothing is sent again automatically."
    ),
    first_step=(
        "1. Look up the charge and its refunds in the gateway's dashboard, with the reference in the facts."
        " 2. If the refund is missing there, ask the gateway whether it was sent."
        " 3. Wait for the answer before you send the money another way."
    ),
    resolution=(
        "Ends when the gateway knows the refund again, or the refund is sent or credited."
        " An officer can resolve it too."
    ),
)
REFUND_AMOUNT_DIFFERS = AlertTexts(
    subject="a refund",
    meaning=(
        "The gateway reports another amount than the refund has."
        " The refund needs attention, and nothing was posted for it."
    ),
    first_step=(
        "1. Compare the refund in the gateway's dashboard with the facts: `amountMinor` here, `toldMinor` at the"
        " gateway. 2. When the gateway has sent it, credit the refund: `POST /api/payments/refunds/:id/credit`."
        " The sent amount is posted; the difference goes to the buyer's wallet, or the buyer owes it."
        " If the gateway has not sent it, ask the gateway to correct the amount."
    ),
    resolution="Ends when the refund is retried, sent or credited, or an officer resolves it.",
)
REFUND_ID_DIFFERS = AlertTexts(
    subject="a refund",
    meaning=(
        "The gateway has a second refund with our note, under another id."
        " The buyer may have been refunded twice. Nothing was changed here."
    ),
    first_step=(
        "1. Look up the charge's refunds in the gateway's dashboard, with the id `toldId` in the facts."
        " 2. If both were sent, ask the gateway to return the second one."
        " 3. Send no further refund for this order until the cause is known."
    ),
    resolution="An officer must resolve it.",
)
REFUND_STUCK = AlertTexts(
    subject="a refund",
    meaning=(
        "A refund failed at the gateway, or the gateway needs information from us or from the buyer."
        " The buyer does not have the money yet."
    ),
    first_step=(
        "1. Find the refund: `GET /api/payments/refunds?status=failed`, or `?status=needs_attention`."
        " 2. Look up the cause in the gateway's dashboard and give the requested information there. 3. Retry a failed"
        " refund (`POST /api/payments/refunds/:id/retry`) or credit the buyer's wallet"
        " (`POST /api/payments/refunds/:id/credit`)."
    ),
    resolution="Ends when the refund is retried, sent or credited, or an officer resolves it.",
)
CHARGE_QUARANTINED = AlertTexts(
    subject="a quarantined charge",
    meaning=(
        "A charge did not match its payment and is quarantined."
        " Unpaid orders of the payment do not expire until finance decides."
    ),
    first_step=(
        "1. Find the charge and the reason: `GET /api/payments/quarantine`. 2. Decide:"
        " `POST /api/payments/quarantine/:id/resolve` with a note and an action. Use `accept_rest` if the buyer wants"
        " the order and pays any difference, `refund` if not, `wallet` if the gateway cannot return the money."
    ),
    resolution="Ends when finance resolves the charge, or an officer resolves the alert.",
)
PAYMENT_STALLED = AlertTexts(
    subject="a payment",
    meaning=(
        "A payment has no final status two hours after its orders' payment deadline."
        " The gateway is still processing it, or does not answer. The orders keep their stock reserved."
    ),
    first_step=(
        "1. Look up the reference in the gateway's dashboard. 2. Poll the gateway again:"
        " `marketplace periodic run expire-checkouts`."
    ),
    resolution="Ends when the payment has a final status, or an officer resolves it.",
)
DISPUTES_DUE = AlertTexts(
    subject="a stage of disputes: finding, ruling, return or appeal",
    meaning="Disputes need this stage within 12 hours. The parties were told this time.",
    first_step=(
        "1. Open the disputes that the facts name: `GET /api/disputes/:id`. 2. Write the finding"
        " (`POST .../findings`), rule (`POST .../resolve`), decide the appeal (`POST .../appeal/decision`), or ask the"
        " parties about the returned goods."
    ),
    resolution="Ends when no dispute needs the stage within 12 hours, or an officer resolves it.",
)
DISPUTES_OVERDUE = AlertTexts(
    subject="a stage of disputes: finding, ruling, return or appeal",
    meaning="Disputes have passed the time of this stage. The escrow stays frozen until a ruling.",
    first_step=(
        "1. Open the disputes that the facts name: `GET /api/disputes/:id`. 2. Write the finding"
        " (`POST .../findings`), rule (`POST .../resolve`), or decide the appeal (`POST .../appeal/decision`). 3. Goods"
        " that the buyer has not sent: rule again. Goods that arrived: confirm the receipt"
        " (`POST .../return/received`)."
    ),
    resolution="Ends when no dispute has passed the time of the stage, or an officer resolves it.",
)
DELETION_MONEY_LEFT = AlertTexts(
    subject="a request to delete an account",
    meaning=(
        "A person who asked for the deletion still has money here, after five reminders."
        " The money blocks the erasure."
    ),
    first_step=(
        "1. Write to the person once more. 2. Without an answer, have finance propose a `wallet_adjustment`"
        " (`POST /api/platform/proposals`) or stage a payout of the sales. 3. Make the erasure plan again."
    ),
    resolution="Ends when the money is gone or the person cancels the deletion, or an officer resolves it.",
)
PRIVACY_REQUESTS_DUE = AlertTexts(
    subject="a kind of requests about personal data: deletion or export",
    meaning="Requests about personal data are older than 20 days. The law allows 30 days.",
    first_step=(
        "1. List the requests: `GET /api/admin/privacy-requests`. 2. Deletion: make a plan"
        " (`POST /api/privacy/erasure-plans`), clear the blockers, execute the plan. 3. Export: see why the job fails"
        " (`GET /api/admin/queues`), and ask the person to request another."
    ),
    resolution="Ends when no request is older than 20 days, or an officer resolves it.",
)
PRIVACY_REQUESTS_LATE = AlertTexts(
    subject="a kind of requests about personal data: deletion or export",
    meaning="Requests about personal data are older than 28 days. They are overdue in two days at most.",
    first_step=(
        "1. List the requests: `GET /api/admin/privacy-requests`. 2. Deletion: make a plan"
        " (`POST /api/privacy/erasure-plans`), clear the blockers, execute the plan today. 3. Tell the person of a"
        " delay and its cause."
    ),
    resolution="Ends when no request is older than 28 days, or an officer resolves it.",
)

# Messages of chat and e-mail: a headline and lines. Filters of mail clients may use the start of a headline.
RAISED_HEADLINE = "[{severity}] {identifier}: {title}"
RESOLVED_HEADLINE = "[RESOLVED {severity}] {identifier}: {title}"
SUBJECT_LINE = "About: {subject}"
FACTS_LINE = "Facts: {facts}"
RAISED_LINE = "Raised at {raised_at}. Respond within {minutes} minutes."
MEANING_LINE = "Meaning: {meaning}"
FIRST_STEP_LINE = "First steps: {first_step}"
RESOLUTION_LINE = "Resolution: {resolution}"
ALREADY_RESOLVED_LINE = "This alert is already resolved."
RESOLVED_BY_RULE_LINE = "Resolved automatically at {resolved_at}: {note}"
RESOLVED_BY_OFFICER_LINE = "Resolved by an officer at {resolved_at}: {note}"
RESOLVED_BY_OPERATOR_LINE = "Resolved by an operator at {resolved_at}: {note}"
RAISED_ONCE_LINE = "The alert was raised once, at {raised_at}."
RAISED_OFTEN_LINE = "The alert was raised {times} times, first at {raised_at}."
DETAILS_LINE = "Details: marketplace alerts show {alert_id}"
SMS_LIMIT_REACHED = AlertTexts(
    subject="the SMS of a day",
    meaning=(
        "The SMS of today cost as much as `SMS_DAILY_LIMIT_NAIRA` allows. Further SMS wait and are tried every"
        " 15 minutes. Push messages, template messages and e-mails are still sent."
    ),
    first_step=(
        "1. Find the cause: many paid orders, or one person who requests many messages"
        " (`notification_delivery_logs`). 2. Raise `SMS_DAILY_LIMIT_NAIRA` and restart the workers."
    ),
    resolution="Ends by itself on the next day, when an SMS is sent again.",
)
