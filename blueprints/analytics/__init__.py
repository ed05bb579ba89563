"""Route of the figures of a store, for the owner."""
