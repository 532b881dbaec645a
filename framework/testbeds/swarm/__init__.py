"""The Swarm testbed: one stack over the nodes of a Docker Swarm."""
