"""Why an endpoint does not serve: evidence from all that knows something of it, to a class of
failure with the lines that show it, the likely cause and the next command."""
