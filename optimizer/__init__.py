"""Search: spaces, optimizers and their benchmark.  Mathematics only."""
