"""Texts of background work: alerts, and errors kept on rows."""

PERIODIC_TASK_FAILING_TITLE = "A periodic task keeps failing"
PERIODIC_TASK_SUCCEEDED_NOTE = "The periodic task succeeded again."

OUTBOX_GIVEN_UP_TITLE = "Background work failed after its last attempt"

WORKER_CRASHED = "The worker crashed while processing this row"
