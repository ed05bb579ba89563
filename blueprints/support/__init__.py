"""Routes of support: tickets of people, and the inbox of staff."""
