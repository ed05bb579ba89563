"""Users: profiles, staff roles with permissions, and addresses."""
