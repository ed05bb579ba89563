"""The platform itself: campuses, hubs, settings."""
