"""Counts and durations of all processes: recorded in memory, and added up in the cache every few seconds."""
