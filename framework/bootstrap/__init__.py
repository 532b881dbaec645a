"""The wiring: the only place that names adapters.  ``storage`` opens the store alone, ``adapters`` everything.

Whoever only lists studies imports ``storage`` alone, and waits for no testbed, no twin and no web server to be loaded.
"""
