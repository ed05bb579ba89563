"""The demo's data: always the same rows, so that what is there already is simply left as it is."""
