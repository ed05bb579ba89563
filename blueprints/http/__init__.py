"""The edge, once: what every route shares."""
