"""Payment intents: initialization, hosted page, bank transfer, checkout and expiry."""
