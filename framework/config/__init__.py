"""YAML files and the environment -> the model.  What is unclear is refused, with its place and what is allowed."""

from framework.config.application import load_application, load_workload_document
from framework.config.bottlenecks_file import load_bottlenecks
from framework.config.configuration_file import load_configuration
from framework.config.knowledge import available, load_service_type, load_service_types, resolved
from framework.config.settings import Retention, Settings, host_name
from framework.config.space import parameters_of, search_space

__all__ = [
    "Retention",
    "Settings",
    "available",
    "host_name",
    "load_application",
    "load_bottlenecks",
    "load_configuration",
    "load_service_type",
    "load_service_types",
    "load_workload_document",
    "parameters_of",
    "resolved",
    "search_space",
]
