"""The caller's account and addresses over HTTP."""
