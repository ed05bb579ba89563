"""Routes of payments, refunds, quarantined charges and ledger statements."""
