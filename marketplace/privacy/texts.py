"""Texts about personal data."""

EXPORT_IN_PROGRESS = "Your export is already being prepared. We will notify you when it is ready."
EXPORT_NOT_READY = "This export is not ready yet. We will notify you when it is ready."
EXPORT_EXPIRED = "This export has expired. Request a new one."
EXPORT_FAILED = "This export failed. Request a new one."

EXPORT_READY_TITLE = "Your data export is ready"
EXPORT_READY_BODY = "You can download the archive for 7 days. Open it with the passphrase that you received."
EXPORT_FAILED_TITLE = "Your data export failed"
EXPORT_FAILED_BODY = "We could not prepare your data export. Please request a new one."

# The index of an archive
INDEX_TITLE = "Your data"
INDEX_INTRODUCTION = (
    "This archive has the data that we keep about you. Each document is JSON, with the rows of its tables."
)
