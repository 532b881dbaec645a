"""A simulated host: an LC service, BE jobs, and what they do to each other, in virtual time.

Its constants are fitted to the tables 2.2 and 2.3 of the thesis (experiments/guard-bench/fit shows the misfit).
"""
