"""The search space as mathematics: values, parameters, constraints, and the map to the unit cube."""

from optimizer.space.capacity import Capacity
from optimizer.space.condition import Condition
from optimizer.space.configuration import Configuration, Value
from optimizer.space.constraint import Constraint, LinearConstraint
from optimizer.space.derived import Derived, circle_of
from optimizer.space.equality import LinearEquality
from optimizer.space.expression import ARITHMETIC, GRAMMAR, arithmetic_names
from optimizer.space.parameter import Kind, Parameter
from optimizer.space.predicate import Predicate
from optimizer.space.search_space import SearchSpace

__all__ = [
    "ARITHMETIC",
    "GRAMMAR",
    "Capacity",
    "Condition",
    "Configuration",
    "Constraint",
    "Derived",
    "Kind",
    "LinearConstraint",
    "LinearEquality",
    "Parameter",
    "Predicate",
    "SearchSpace",
    "Value",
    "arithmetic_names",
    "circle_of",
]
