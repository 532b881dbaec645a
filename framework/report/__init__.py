"""What a study found, for people and for programs: one summary behind the terminal, the JSON and the HTML page."""
