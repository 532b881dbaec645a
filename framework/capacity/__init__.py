"""Machines for a stated need: scaling laws from measurements of one node, numbers of nodes, ranked plans with costs."""
