"""Models of what was measured, and of what is believed before."""
