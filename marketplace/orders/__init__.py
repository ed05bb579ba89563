"""Orders, order events and escrow."""
