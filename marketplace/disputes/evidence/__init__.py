"""Evidence of disputes: files of the parties, facts of the service, and the pack for a bank."""
