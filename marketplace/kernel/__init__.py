"""Pure building blocks without randomness, network or environment. Only ``clock.system_clock`` reads the clock."""
