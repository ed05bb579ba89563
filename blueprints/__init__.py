"""HTTP routes and schemas, without SQL and business rules."""
