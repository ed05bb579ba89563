"""Support: contacts and their messages."""
