"""A study from its plan to its verdict, and beyond: everything between the use cases and one trial.

| question                                             | where                                      |
|------------------------------------------------------|--------------------------------------------|
| what was asked for, and is it sound?                 | planning, warm_start                       |
| in which order is it measured?                       | procedure, sweep, verdict                  |
| what does it decide on the way?                      | deciding                                   |
| who measures its trials, and keeps them at hand?     | trial_runner, recorded_trials              |
| which optimizer asks, and what is it told?           | new_optimizer, observations                |
| who runs it, here or elsewhere, and only once?       | runner, external, external_session, locks, lease, batching |
| what mattered?                                       | importance                                 |
| what becomes of it?                                  | export, retention                          |
| may what comes from elsewhere be taken in?           | archive_*, parquet_pages, imported         |
"""
