"""Placing of orders and checkouts: validation, prices, stock and payment from the wallet."""
