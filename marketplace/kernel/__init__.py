"""Pure building blocks that never read the clock, randomness, the network or the environment."""
