"""Delivery of notifications by push, messages, SMS and e-mail."""
