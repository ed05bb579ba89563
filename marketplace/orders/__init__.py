"""Orders, their event trail and their escrow."""
