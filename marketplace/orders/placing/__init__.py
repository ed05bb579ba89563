"""Placing orders: what is ordered is validated, reserved, paid from the wallet and written."""
