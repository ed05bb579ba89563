"""The caller's wallet and cash-outs."""
