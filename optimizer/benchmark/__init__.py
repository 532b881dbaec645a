"""Benchmark of optimizers: problems, a run of one optimizer on one problem, and statistics of many runs."""
