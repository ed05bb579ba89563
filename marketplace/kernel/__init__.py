"""Pure building blocks: nothing here reads the clock, randomness, the network or the environment."""
