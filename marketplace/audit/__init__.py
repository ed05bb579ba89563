"""The audit trail: it only grows, and each row carries the hash of the one before."""
