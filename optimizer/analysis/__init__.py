"""What told values say: importance, and which changes are needed."""
