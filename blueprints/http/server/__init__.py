"""The edge below the application: gunicorn's workers and connections."""
