"""A simulated SMS gateway that receives messages, charges a balance and displays the latest messages."""
