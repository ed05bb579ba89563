"""Payment intents and the one way in for money."""
