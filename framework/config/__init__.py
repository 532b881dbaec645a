"""YAML files and the environment -> the model.  Anything unclear is refused, with its place and the allowed values.

One kind of file, one module; ``settings`` reads the environment.  Nothing is imported here, so that an import of the
settings does not load the YAML library.
"""
