"""Reviews of stores and the replies of stores."""
