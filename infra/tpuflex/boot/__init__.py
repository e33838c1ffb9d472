"""What a host is told at boot: the static startup script, and one JSON document beside it."""
