"""Administration of people by staff: search, the view of a person, and staff roles."""
