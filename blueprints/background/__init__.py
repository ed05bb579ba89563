"""Background work for staff: queues and periodic tasks."""
