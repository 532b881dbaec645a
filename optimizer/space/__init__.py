"""The search space as mathematics: values, parameters, constraints, and the map to the unit cube."""

from optimizer.space.configuration import Configuration, Value
from optimizer.space.constraint import LinearConstraint
from optimizer.space.parameter import Kind, Parameter
from optimizer.space.search_space import SearchSpace

__all__ = ["Configuration", "Kind", "LinearConstraint", "Parameter", "SearchSpace", "Value"]
