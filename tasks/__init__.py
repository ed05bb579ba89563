"""Huey only: tasks take ids, open a transaction and call the domain."""
