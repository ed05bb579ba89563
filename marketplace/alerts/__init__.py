"""Alerts for operators: raised once, sent once on each channel, open until resolved."""
