"""Why an endpoint does not serve: from the evidence of every source to a class of failure, with the
lines that show it, its likely cause and the next command."""
