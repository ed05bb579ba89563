"""Stores of vendors."""
