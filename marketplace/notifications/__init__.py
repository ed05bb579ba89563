"""The notification feed of each user: one notification for each cause."""
