"""The results of a study, for people and for programs: one summary behind the terminal, the JSON and the HTML page."""
