"""Tailor tunes a microservice application by experiment.  One sentence, one data flow:

    ask -> render -> deploy -> drive load -> read traces -> evaluate -> tell

| stage       | from                          | to                                   | where                     |
|-------------|-------------------------------|--------------------------------------|---------------------------|
| ask         | the history of a study        | Suggestion (a Configuration)         | optimizer                 |
| render      | Application + Configuration   | Deployment (compose documents, files)| framework.compose         |
| deploy      | Deployment                    | Running (containers, read back)      | framework.testbeds        |
| drive load  | LoadPlan + Running            | LoadResult (every request)           | framework.load            |
| read traces | Running + the window          | SpanTable (every span)               | framework.traces          |
| evaluate    | LoadResult + SpanTable        | Measurement, then a Trial's value    | framework.objective       |
| tell        | Trial                         | Observation                          | optimizer                 |

``framework.controller`` reads as that sentence for one trial, ``framework.study.procedure`` gives the order of a study,
``framework.use_cases`` holds what the command line and the API call, and ``framework.bootstrap`` alone chooses the
adapters.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("tailor")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
