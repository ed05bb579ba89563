"""How well the search finds what is meant: labelled queries over the seeded catalogue."""
