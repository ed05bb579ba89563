"""The append-only audit trail. Each row contains the hash of the previous row."""
