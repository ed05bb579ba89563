"""Compiled and prepared statements, and tables that clients sort."""
