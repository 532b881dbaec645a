"""A study from its plan to its verdict, and beyond: everything between the use cases and one trial.

| question                                             | where                   |
|------------------------------------------------------|-------------------------|
| what was asked for, and is it sound?                 | planning, earlier       |
| in which order is it measured?                       | procedure, sweep, proof |
| who runs it, here or elsewhere, and only once?       | running, external, desk, lease, together |
| what becomes of it?                                  | sharing, retention      |
| may what comes from elsewhere be taken in?           | archive_*, parquet_pages, imported |
"""
