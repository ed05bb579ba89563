"""The double-entry ledger: the only code that writes ledger tables."""
