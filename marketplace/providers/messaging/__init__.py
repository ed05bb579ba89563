"""Messaging: webhook signatures, and the channels that alerts are sent by."""
