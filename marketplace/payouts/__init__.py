"""Payouts: money to vendors. Here is what the gateway tells of transfers that went wrong."""
