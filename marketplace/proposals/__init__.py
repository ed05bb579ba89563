"""Platform changes that an officer proposes and another officer approves."""
