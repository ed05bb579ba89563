"""The platform: campuses, hubs, settings, features, maintenance and payout halts."""
