"""Categories and products."""
