"""The administration of people over HTTP."""
