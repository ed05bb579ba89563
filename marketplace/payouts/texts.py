"""Texts about payouts, for payees and officers. Placeholders are filled with ``str.format``.

A payee's balance is a store's balance or a wallet. Texts that name the balance exist once for each.
"""

# Notifications to payees. A body may be followed by further sentences of the same notification.
PAYOUT_SENT_TITLE = "Your payout was sent"
PAYOUT_SENT_BODY = "{amount} was sent to your bank account {account_number}."

PAYOUT_SENT_AFTER_RETURN_TITLE = "Your returned payout was sent after all"
PAYOUT_SENT_AFTER_RETURN_BODY_STORE = (
    "{amount} was sent to your bank account {account_number},"
    " although we had already returned the amount to your balance."
)
PAYOUT_SENT_AFTER_RETURN_BODY_WALLET = (
    "{amount} was sent to your bank account {account_number},"
    " although we had already returned the amount to your wallet."
)
RETURNED_AMOUNT_DEDUCTED_STORE = "We therefore took {amount} back from your balance."
RETURNED_AMOUNT_DEDUCTED_WALLET = "We therefore took {amount} back from your wallet."
RETURNED_AMOUNT_OWED_STORE = "You owe us {amount}. We will deduct it from your next earnings."
RETURNED_AMOUNT_OWED_WALLET = (
    "You owe us {amount}. We will deduct it from the next amounts that your wallet receives."
)

PAYOUT_FAILED_TITLE = "Your payout did not reach you"
PAYOUT_FAILED_BODY_STORE = (
    "Your payout of {amount} to bank account {account_number} failed. {reason}"
    " The amount is back in your balance."
)
PAYOUT_FAILED_BODY_WALLET = (
    "Your payout of {amount} to bank account {account_number} failed. {reason}"
    " The amount is back in your wallet."
)
# Reasons of a failed payout, which payees also see in the payout's `reason`.
FAILED_ACCOUNT_NOT_PAYABLE = "The bank could not find your bank account."
FAILED_VOIDED = "The transfer could not be sent."
FAILED_BY_BANK = "The bank did not accept the transfer."
FAILED_REVERSED = "The bank returned the transfer."
FAILED_NEVER_MADE = "The transfer was not made."
FAILED_ACCOUNT_REPLACED = (
    "You changed your bank account before the payout was sent, so we cancelled the payout."
)
# The next step after a failed payout. The bank account needs a check unless nothing was sent to the account.
CHECK_BANK_ACCOUNT = "Check that your bank account is correct and can receive money, or change it."
RETRIED_WITH_NEXT_BATCH = "We will include the amount in the next payouts."
REQUEST_PAYOUT_AGAIN = "You can request the payout again."

PAYOUT_CANCELLED_TITLE = "Your payout was cancelled"
PAYOUT_CANCELLED_BODY_STORE = (
    "We cancelled the payout of {amount} that you requested. The amount is back in your balance."
    " You can request the payout again, or contact support if you have questions."
)
PAYOUT_CANCELLED_BODY_WALLET = (
    "We cancelled the payout of {amount} that you requested. The amount is back in your wallet."
    " You can request the payout again, or contact support if you have questions."
)

BANK_ACCOUNT_CHANGED_TITLE = "Your bank account for payouts was changed"
BANK_ACCOUNT_CHANGED_BODY = (
    "Your payouts now go to the account at {bank_name} that ends in {last_digits}."
    " We will send no payout there before {held_until} UTC."
    " If you did not make this change, contact support before then."
)

# Notifications to officers.
PAYOUT_BATCH_STAGED_TITLE = "A payout batch needs your approval"
PAYOUT_BATCH_STAGED_BODY = (
    "Payments: {payments}. Total: {amount}. Review the batch, then approve or reject it."
    " Two officers must approve the batch before it can be sent."
)

# Holds, as payees read them.
HOLD_NO_BANK_ACCOUNT = "You have no bank account for payouts. Add a bank account."
HOLD_BANK_ACCOUNT_CHANGED = (
    "Payouts to a new bank account start 24 hours after you add the account. Wait until then."
)
HOLD_ACCOUNT_RESTRICTED = "Your account is restricted, so we cannot pay you. Contact support."
HOLD_ACCOUNT_SUSPENDED = "Your account is suspended, so we cannot pay you. Contact support."
HOLD_STORE_SUSPENDED = "Your store is suspended, so we cannot pay you. Contact support."
HOLD_PAYOUTS_HALTED = (
    "All payouts are paused while we investigate a problem. Your balance is safe. Try again later."
)

# Risk flags of a batch's payments, for the officers who approve.
RISK_ON_HOLD = (
    "The payee is on hold, so the batch cannot be dispatched."
    " See `holds` for the reason and the end of the hold."
)
RISK_ACCOUNT_CHANGED_SINCE_STAGING = "The payee has changed the bank account since the batch was staged."
RISK_ACCOUNT_CHANGED = "The payee added the bank account less than 30 days ago."
RISK_NAME_DIFFERS = "The name of the bank account resembles neither the store's name nor the payee's name."
RISK_FIRST_PAYOUT = "No earlier payout has reached the payee."
RISK_AMOUNT_UNUSUAL = (
    "The amount is more than three times the average of the payee's latest 12 successful payouts."
)
RISK_UNDER_DISPUTE = "The store has an order under dispute or with an open chargeback."
RISK_LOST_DISPUTES = "The store has refunded two or more disputed orders of the last 90 days."
RISK_NOT_ACTIVE = "The store or the payee's account is suspended, restricted or closed."
RISK_OWES_MONEY = "The vendor owes the marketplace money."
RISK_FAILED_BEFORE = "The payee's latest payout failed or was reversed."

# Problems of withdrawals. The first sentence may be followed by the reasons why less is available.
WITHDRAWAL_TOO_LARGE = "You can withdraw at most {available}."
UNAVAILABLE_IN_ESCROW = "{amount} is in escrow until the buyers have received their orders."
UNAVAILABLE_FROZEN = "{amount} is frozen by disputes."
UNAVAILABLE_PENDING = "{amount} is in a payout that has not been sent yet."
UNAVAILABLE_APPEAL_PERIOD = "{amount} of a ruling is on hold until the appeal period or the appeal ends."
UNAVAILABLE_OWED = "You owe us {amount}, which we deduct first."
PENDING_PAYOUT_EXISTS = (
    "You already have a payout that has not been sent."
    " Wait until it is sent, or cancel it if it is not in a batch yet."
)
PAYOUT_NOT_CANCELLABLE = "The payout has the status `{status}`, so you can no longer cancel it."
PAYOUT_IN_BATCH_NOT_CANCELLABLE = "The payout is already in a batch, so you can no longer cancel it."
PAYOUT_NOT_FOUND = "Payout not found."
STATEMENT_TOO_LONG = "The period has more than {limit} entries. Choose a shorter period."
STATEMENT_TOO_LONG_EXCEPT_CSV = (
    "The period has more than {limit} entries. Choose a shorter period or the CSV format."
)

# Problems of batches, for officers.
BATCH_NOT_FOUND = "Payout batch not found."
BATCH_EMPTY = "The batch has no payments to send. Reject the batch instead."
BATCH_CHANGED = "The batch has changed since you read it. Review the batch again before you approve it."
BATCH_ALREADY_APPROVED = (
    "You have already approved or staged this batch. Another officer must give the next approval."
)
BATCH_CHANGED_SINCE_APPROVAL = (
    "The batch has changed since its approval, so it is staged again."
    " Review the payments, exclude any that must not be paid, and have two officers approve the batch again."
)
NOTHING_TO_STAGE = (
    "No payee can be paid now: balances are below the minimum, already in a payout, or on hold."
    " See leftOut for each vendor's reason."
)
PAYEES_ON_HOLD = (
    "Payees on hold: {count}. Dispatch the batch when the holds have ended, or exclude the payments marked `on_hold`"
    " and have the rest approved by two officers."
)
PAYEES_ON_HOLD_UNTIL = (
    "Payees on hold: {count}. Dispatch the batch after {until}, or exclude the payments marked `on_hold`"
    " and have the rest approved by two officers."
)

# Problems of transfers, for officers.
PAYOUT_NOT_DISPATCHED = (
    "The payout has not been dispatched, so you cannot void it."
    " Reject its batch, or exclude the payout from the batch."
)
PAYOUT_MAY_BE_IN_FLIGHT = (
    "The payout has the status `{status}` and may have been sent. Poll the gateway with `POST /api/payouts/:id/ask`,"
    " and void the payout only if the gateway still does not know it after five days of polls."
)

# Titles of alerts. The kinds of alerts give the meaning and the first step.
ALERT_TRANSFER_DIFFERS_TITLE = "The gateway reports a different amount for a payout"
ALERT_TRANSFER_SENT_AFTER_ALL_TITLE = "A payout was sent after it was reported as failed or reversed"
ALERT_TRANSFER_UNSETTLED_TITLE = "A payout has no final status after the last poll"
ALERT_TRANSFER_WANTS_OTP_TITLE = "Transfers need a one-time password at the gateway"
ALERT_PAYOUT_FUNDS_SHORT_TITLE = "The gateway balance is too low for payouts"
ALERT_PAYOUTS_REFUSED_TITLE = "The gateway refuses all payouts of a batch"
ALERT_PAYOUT_STALLED_TITLE = "Payouts have been stalled for more than 48 hours"
ALERT_PAYOUT_EXCEPTION_TITLE = "A transfer failed or was reversed"
ALERT_TRANSFER_UNKNOWN_TITLE = "The gateway made a transfer that this service did not request"
ALERT_TRANSFER_UNKNOWN_FAILED_TITLE = "A transfer that this service did not request failed or was reversed"
# Notes of alerts that the service resolves.
RESOLVED_PAYOUT_FINAL = "The payout has the final status {status}."
RESOLVED_NOTHING_TO_SEND = "The batch has no payouts left to send."
RESOLVED_PAYOUTS_ACCEPTED = "The gateway accepted payouts of the batch."
RESOLVED_BATCH_FINAL = "All payouts of the batch have a final status."
RESOLVED_BY_FINANCE = "Finance has resolved the exception."
RESOLVED_NOT_STALLED = "The payouts of this alert are no longer stalled."

# Descriptions of ledger transactions, which vendors read in statements.
LEDGER_PAYOUT = "Payout"
LEDGER_PAYOUT_CANCELLED = "Payout cancelled"
LEDGER_PAYOUT_SENT = "Payout sent by the gateway"
LEDGER_PAYOUT_FAILED = "Payout failed, amount returned"
LEDGER_PAYOUT_REVERSED = "Payout reversed, amount returned"
LEDGER_PAYOUT_SENT_AFTER_RETURN = "Payout sent although its amount had been returned"
# Debts that a collection pays off; several are joined with a space.
LEDGER_DEBT_REFUND = "Deducted for an order that was refunded after its release."
LEDGER_DEBT_CHARGEBACK = "Deducted for an order whose payment was charged back by the buyer's bank."
LEDGER_DEBT_PAYOUT_SENT_AFTER_RETURN = (
    "Deducted for a payout that was sent although its amount had been returned."
)

# Statements as PDF files.
STATEMENT_TITLE = "Statement of account"
STATEMENT_COLUMN_DATE = "Date (UTC)"
STATEMENT_COLUMN_DESCRIPTION = "Description"
STATEMENT_COLUMN_ORDER = "Order"
STATEMENT_COLUMN_CREDIT = "Credit"
STATEMENT_COLUMN_DEBIT = "Debit"
STATEMENT_COLUMN_BALANCE = "Balance"
STATEMENT_OPENING_BALANCE = "Opening balance"
STATEMENT_CLOSING_BALANCE = "Closing balance"
STATEMENT_TOTAL_CREDITS = "Total credits"
STATEMENT_TOTAL_DEBITS = "Total debits"
STATEMENT_PAID_ACCOUNT = "Paid to {bank}, {account_number}, {account_name}"
STATEMENT_SEVERAL_PAID_ACCOUNTS = "Paid to several accounts"
STATEMENT_PERIOD = "Period: {starts} to {ends} UTC (end excluded)"
STATEMENT_STORE = "Store {store_id}"
STATEMENT_NEGATIVE_BALANCE = (
    "A negative balance is a debt to the marketplace. We will deduct it from your next earnings."
)
STATEMENT_GENERATED = " · generated {generated_at} UTC"
