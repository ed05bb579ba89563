"""The development environment for one machine: embedded servers, simulated providers and the demo."""
