"""A pretended kernel's resctrl, behind the port of kernel files.

Rules and texts of last_cmd_status are those of Linux 6.16 (Documentation/filesystems/resctrl.rst, fs/resctrl).
"""

from framework.testing.pretend_resctrl.machines import AMD, HASWELL, INTEL, MACHINES, CacheMachine
from framework.testing.pretend_resctrl.traffic import GroupShare, PlantTraffic
from framework.testing.pretend_resctrl.tree import PretendResctrl

__all__ = ["AMD", "HASWELL", "INTEL", "MACHINES", "CacheMachine", "GroupShare", "PlantTraffic", "PretendResctrl"]
