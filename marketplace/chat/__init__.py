"""Chat between buyers and stores: conversations, messages, the guard of the escrow, and phone exchanges."""
