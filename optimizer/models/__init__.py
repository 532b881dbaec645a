"""Models of measured values, and prior models of them."""
