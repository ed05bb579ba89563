"""Changes of the platform that two officers decide on: one proposes, another approves."""
