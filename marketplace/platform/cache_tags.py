"""What cached content of the platform depends on."""

STATUS = "status"
"""Whether there is maintenance, which features are on, and whether payouts stand still."""
