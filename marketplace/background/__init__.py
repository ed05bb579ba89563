"""Background work as operators see it: its queues, its workers, and what runs by the clock."""
