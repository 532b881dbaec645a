"""What Tailor needs from the outside: one protocol, one file.  Only ``framework.bootstrap`` names who provides it."""
