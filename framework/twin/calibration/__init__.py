"""From what studies measured to a twin."""
