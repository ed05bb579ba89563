"""Alerts: what somebody must see to, told once, and kept until it is over."""
