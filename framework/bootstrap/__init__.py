"""The only place that chooses adapters: ``storage`` those that keep studies, ``adapters`` all the others.

Whoever only lists studies imports ``storage`` alone, and waits for no testbed, no twin and no web server to be loaded.
"""
