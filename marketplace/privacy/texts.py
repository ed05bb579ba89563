"""Texts about personal data."""

EXPORT_IN_PROGRESS = "Your export is already being prepared. We will notify you when it is ready."
EXPORT_NOT_READY = "This export is not ready yet. We will notify you when it is ready."
EXPORT_EXPIRED = "This export has expired. Request a new one."
EXPORT_FAILED = "This export failed. Request a new one."

EXPORT_READY_TITLE = "Your data export is ready"
EXPORT_READY_BODY = "You can download the archive for 7 days. Open it with the passphrase that you received."
EXPORT_FAILED_TITLE = "Your data export failed"
EXPORT_FAILED_BODY = "We could not prepare your data export. Please request a new one."

# Deletion of an account
DELETION_BLOCKED = "Your account cannot be deleted yet. Finish or cancel the open cases in blockers first."
DELETION_ALREADY_REQUESTED = "You have already asked for the deletion of this account on {requested}."
NO_DELETION_PENDING = "No deletion of this account is pending."
BLOCKER_OPEN_ORDERS = "Open orders: {count}. Complete or cancel the orders first."
BLOCKER_OPEN_DISPUTES = "Open disputes: {count}. Wait for the ruling, or withdraw your own disputes."
BLOCKER_ESCROW = "{amount} in escrow. The money moves when the orders end."
BLOCKER_PAYMENTS = "Payments in progress, under review, or disputed by a bank: {count}. Wait for their end."
BLOCKER_REFUNDS = "Refunds in progress: {count}. Wait for their end."
BLOCKER_PAYOUTS = "Payouts in progress: {count}. Wait for their end."
BLOCKER_WALLET_MONEY = "{amount} in the wallet. The person can cash it out, or finance can adjust the wallet."
BLOCKER_PAYABLE_MONEY = "{amount} of sales are not paid out yet. The person can withdraw the amount."
BLOCKER_STAFF_ROLE = "The account has a staff role. An administrator must revoke the role first."
BLOCKER_GRACE_PERIOD = "The person can still cancel the deletion. Wait for the end of the grace period."

DELETION_REQUESTED_TITLE = "Your account will be deleted"
DELETION_REQUESTED_BODY = (
    "We will delete your account and your data after {date}. You can cancel until then: open Account, then"
    " Privacy."
)
DELETION_REMINDER_TITLE = "Your account will be deleted soon"
DELETION_REMINDER_BODY = (
    "We will delete your account and your data after {date}. To keep your account, open Account, then Privacy, and"
    " cancel the deletion."
)
DELETION_MONEY_TITLE = "You still have money here"
DELETION_MONEY_BODY = "Cash out {amount} before we delete your account. Open Wallet and request a cash-out."
DELETION_CANCELLED_TITLE = "Your account stays"
DELETION_CANCELLED_BODY = "You cancelled the deletion. You can use all functions of your account again."

ALERT_MONEY_LEFT = "A person who wants to be deleted has not cashed out"
ALERT_MONEY_LEFT_RESOLVED = "The money was paid out, or the deletion ended."
ALERT_REQUESTS_DUE = "Requests about personal data are due soon"
ALERT_REQUESTS_LATE = "Requests about personal data are almost overdue"
ALERT_REQUESTS_ON_TIME = "No request is this late now."

# Erasure
PERSON_NOT_FOUND = "Person not found."
PLAN_NOT_FOUND = "Plan not found."
EXECUTION_NOT_FOUND = "Execution not found."
OWN_ERASURE = "You cannot erase your own data. Ask another officer."
ALREADY_ERASED = "This person is already erased, or the erasure is running."
PLAN_HASH_WRONG = "hash is not the hash of this plan. Read the plan again and send its hash."
PLAN_CHANGED = "The person's data changed since the plan. Make a new plan and check it."
ERASURE_BLOCKED = "This person cannot be erased yet. Clear the cases in blockers first, then make a new plan."

# The index of an archive
INDEX_TITLE = "Your data"
INDEX_INTRODUCTION = (
    "This archive has the data that we keep about you. Each document is JSON, with the rows of its tables."
)
