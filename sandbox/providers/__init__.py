"""Stand-ins for the payment gateway and the identity provider, spoken to over HTTP like the real ones."""
