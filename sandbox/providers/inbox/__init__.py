"""Simulated push services, messaging provider and mail server, with a page of everything that people receive."""
