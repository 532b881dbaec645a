"""A study from its plan to its verdict, and beyond: everything between the use cases and one trial.

| question                                             | where                                      |
|------------------------------------------------------|--------------------------------------------|
| which study does a request describe, is it sound?    | planning, warm_start                       |
| in which order is it measured?                       | procedure, sweep, verdict                  |
| what does it decide on the way?                      | deciding                                   |
| who measures its trials and keeps them in memory?    | trial_runner, recorded_trials              |
| which optimizer asks, and what is it told?           | new_optimizer, observations                |
| who runs it, here or elsewhere, one at a time?       | runner, external, external_session, locks, lease, batching |
| which parameters mattered?                           | importance                                 |
| how well does a model predict, what is there to gain?| search_model                               |
| how is it shared, and when is it deleted?            | export, retention                          |
| is a study from elsewhere safe to import?            | archive_*, parquet_pages, imported         |
"""
