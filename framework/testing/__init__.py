"""Contract kits of the ports, for authors of an implementation, and fakes that implement the ports.

A kit is a class of pytest tests.  A test module subclasses it and defines the fixture that its docstring names; the
tests then run on that implementation.  Needs pytest.
"""
