"""Testbed on a Docker Engine, driven by Docker Compose."""
