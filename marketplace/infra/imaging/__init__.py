"""Handling of uploaded pictures: format detection, and re-encoding in a separate process."""
