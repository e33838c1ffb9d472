"""Files on this machine that are this user's alone."""
