"""Vendor applications: slugs, submission, answers to questions, and decisions of staff."""
