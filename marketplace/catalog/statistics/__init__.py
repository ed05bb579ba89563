"""Counters of product views, cart adds and shares."""
