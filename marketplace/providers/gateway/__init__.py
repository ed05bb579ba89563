"""The payment gateway's HTTP API: payments, refunds, transfers, banks and records."""
