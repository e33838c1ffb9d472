"""The figures of the scoreboard: each one a list of cases, and how one case is judged."""
