"""The domain of the campus marketplace, independent of Flask, marshmallow and Huey."""
