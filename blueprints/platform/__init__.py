"""Platform changes and service status over HTTP."""
