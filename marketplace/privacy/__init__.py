"""Personal data: the register of all places, and the rules of retention and erasure."""
