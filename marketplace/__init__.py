"""The domain of the campus marketplace: it knows neither Flask nor marshmallow nor Huey."""
