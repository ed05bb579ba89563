"""Routes of reports: submit a report, and the decisions of staff."""
