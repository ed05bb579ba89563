"""A stand-in for the team's chat: it takes what is posted to its incoming webhook, and shows it."""
