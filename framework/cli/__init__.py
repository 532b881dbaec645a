"""The command ``tailor``: one file per group of commands, thin over ``use_cases``."""
