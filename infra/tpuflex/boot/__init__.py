"""What a host gets at boot: the static startup script, and one JSON document beside it."""
