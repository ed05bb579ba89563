"""Search quality: recall and ranks of labelled queries over the seeded catalogue."""
