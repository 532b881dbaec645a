"""Contract kits of the ports, and stand-ins behind them, for whoever implements one.

A kit is a class of pytest tests.  A test module subclasses it and gives the fixture that its docstring names; the tests
then run on that implementation.  Needs pytest.
"""
