"""Says what borg says of an archive, and fails where the parts that occur again were not found."""

import json
import sys

stats = json.load(sys.stdin)["archive"]["stats"]
said = {name: stats[f"{key}_size"] for name, key in (("original", "original"), ("deduplicated", "deduplicated"))}
print(json.dumps({"files": stats["nfiles"], **said}))
sys.exit(not said["original"] / 3 <= said["deduplicated"] < said["original"] / 2)
