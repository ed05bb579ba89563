"""Pages for people with a browser. All other answers are for programs."""
