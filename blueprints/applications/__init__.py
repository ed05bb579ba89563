"""Routes of vendor applications: applicants, slugs, and decisions of staff."""
