"""Texts of reconciliation: next steps for each kind of difference, errors, alerts."""

# Shown with each difference: the meaning first, then the next step.
SUGGESTION_APPLY_CHARGE = (
    "The buyer paid, but the ledger does not have the charge. Resolve with `ask`: a worker fetches the charge from"
    " the gateway and applies it. Then look for its event in `GET /api/admin/webhooks` to find out why the event was"
    " not applied."
)
SUGGESTION_LOOK_UP_CHARGE = (
    "The reference of this charge matches no payment in this service. Look up the charge in the gateway's dashboard."
    " If a customer paid it, refund it there; the next run compares charge and refund together. If the money is the"
    " company's own, resolve with `own_funds`."
)
SUGGESTION_BEAR_REFUNDED_CHARGE = (
    "The gateway refunded a charge that matches no payment in this service, and kept its fee. Resolve with"
    " `gateway_cost`, or with `own_funds` if the difference is more than a fee."
)
SUGGESTION_LOOK_UP_REFUND = (
    "This refund was made by hand at the gateway, not by this service. Check the refunds of the order first, because"
    " this service may refund the same amount again. Then resolve with `own_funds`, or have the gateway reverse the"
    " refund."
)
SUGGESTION_LOOK_UP_TRANSFER = (
    "This service did not send this transfer. Find out in the gateway's dashboard who sent it. If no colleague did,"
    " replace the gateway's secret key there and in this service at once. Then resolve with `own_funds`."
)
SUGGESTION_LOOK_UP_MOVEMENT = (
    "The gateway's balance changed without a charge, refund, transfer or settlement. Ask the gateway's support for"
    " the cause. Resolve with `own_funds` if the money is the company's own, or with `gateway_cost` if the gateway"
    " charged a fee."
)
SUGGESTION_LOOK_UP_SETTLEMENT = (
    "The gateway's balance and its settlement list disagree about a settlement to the bank. Compare the settlement"
    " with the bank statement. A later run posts the settlement once the gateway reports it as successful."
)
SUGGESTION_LOOK_UP_BOOKING = (
    "The ledger has a posting without a matching movement at the gateway. Have an operator run"
    " `marketplace ledger verify`, and find out what caused the posting. Once the cause is clear, resolve with"
    " `own_funds`, which posts a correcting transaction."
)
SUGGESTION_LOOK_UP_BALANCE = (
    "The gateway's balance does not equal the sum of its own movements. Ask the gateway's support for the missing"
    " movement. You cannot resolve this difference here; the next run compares both again."
)
SUGGESTION_COMPARE_AMOUNTS = (
    "The gateway and the ledger have different amounts. Compare both in the gateway's dashboard. If the gateway is"
    " wrong, ask its support to correct the amount. Otherwise resolve with `own_funds` or `gateway_cost`."
)
SUGGESTION_LOOK_UP_PAYOUT = (
    "The ledger has this payout as paid, but the gateway does not have it. Ask the gateway's support whether it was"
    " paid. If it certainly was not, resolve with `came_back`: the payee gets the amount back as balance. Never send"
    " the payout again by hand."
)
SUGGESTION_POLL_REFUND = (
    "The gateway and this service disagree about this refund. Resolve with `ask`: a worker fetches the refund's"
    " status from the gateway and applies it."
)
SUGGESTION_POLL_PAYOUT = (
    "The gateway and this service disagree about this payout. Resolve with `ask`: a worker fetches the payout's"
    " status from the gateway by its reference and applies it. Never send the payout again by hand."
)

RUN_SUPERSEDED = "A later reconciliation exists. Resolve the difference there."
OWN_PAYOUT = "You cannot resolve a difference of your own payout. Another officer must resolve it."
RESOLUTION_NOT_ALLOWED = "`{resolution}` does not apply to this difference. Use one of: {allowed}."
NO_RESOLUTION_ALLOWED = (
    "`{resolution}` does not apply to this difference. The difference has no resolution in this service."
)
INSUFFICIENT_OWN_FUNDS = (
    "The company's own funds at the gateway ({balance}) do not cover this difference. Top up the balance at the"
    " gateway, then resolve what the next reconciliation finds."
)
SECOND_OFFICER_REQUIRED = "You proposed this resolution. Another officer must confirm it."
PAYOUT_NOT_SUCCESSFUL = (
    "The payout is no longer successful: its status is {status}. Start another reconciliation and resolve what it"
    " finds."
)
PAYOUT_AMOUNT_DIFFERS = (
    "The difference is not the amount of the payout. Start another reconciliation and resolve what it finds."
)

RUN_JUST_FINISHED = "Another reconciliation finished just now. Start yours again."
RUN_IN_PROGRESS = "Reconciliation {run_id} is running. Wait for its result."
RUN_STUCK = (
    "Reconciliation {run_id} has been running since {started_at}."
    " Have an operator check the workers and their logs."
)
RUN_FAILED_WORKER_LOST = "The worker of this run was lost."
RUN_FAILED_UNEXPECTEDLY = "Unexpected error: {error_type}."

GATEWAY_BALANCE_DRIFT_TITLE = "The gateway's balance does not match the ledger"
GATEWAY_BALANCE_MATCHED_NOTE = "The gateway's balance matches the ledger again."
