"""What exists only to run everything on one machine: stand-ins for the providers, and the stack."""
