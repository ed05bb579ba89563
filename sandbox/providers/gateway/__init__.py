"""A simulated payment gateway: API, payment page, webhooks, and control endpoints for tests and scripts."""
