"""Payments: intents, charges, refunds and chargebacks."""
