"""An opened stack: its settings, its names, and the clients of its cloud."""
