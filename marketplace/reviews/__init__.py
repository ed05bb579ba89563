"""Reviews of stores by buyers of delivered orders, replies of stores, and store ratings."""
