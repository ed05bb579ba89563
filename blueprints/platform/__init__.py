"""The platform over HTTP: proposals of its officers, and its status."""
