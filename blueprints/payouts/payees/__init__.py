"""HTTP API of payouts, balances and statements, for payees."""
