"""A simulated team chat that receives messages by incoming webhook and displays the latest."""
