"""Background work: queues, workers and periodic tasks."""
