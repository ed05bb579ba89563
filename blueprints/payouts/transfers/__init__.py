"""HTTP API of dispatch, exceptions and stalled payouts."""
