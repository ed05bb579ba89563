"""HTTP API of payouts to vendors and from wallets."""
