"""People: profiles, staff roles and their permissions, addresses."""
