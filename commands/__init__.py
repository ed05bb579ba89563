"""The operator's command line. Each module holds one command or one group of commands."""
