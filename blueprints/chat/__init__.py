"""Routes of the chat between buyers and stores."""
