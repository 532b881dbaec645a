"""Testbeds, on which deployments run: Docker and the twin; and the readings of the host itself."""
