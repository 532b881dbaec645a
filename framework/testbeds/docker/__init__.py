"""The testbed of a Docker Engine, driven by Docker Compose."""
