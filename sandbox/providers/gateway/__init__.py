"""A stand-in for the payment gateway: its API, its payment page, its webhooks, and controls for scripts."""
