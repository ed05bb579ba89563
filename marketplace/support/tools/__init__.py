"""Tools of support staff: canned replies, saved views, and figures."""
