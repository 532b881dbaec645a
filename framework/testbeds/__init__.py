"""Where deployments run: Docker, the twin, and what the host itself says."""
