"""YAML files and the environment -> the model.  What is unclear is refused, with its place and what is allowed.

One kind of file, one module; ``settings`` reads the environment.  Nothing is imported here, so that whoever needs the
settings does not load what reads YAML.
"""
