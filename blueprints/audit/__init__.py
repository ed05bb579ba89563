"""Routes of the audit trail."""
