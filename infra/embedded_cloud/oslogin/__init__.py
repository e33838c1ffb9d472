"""OS Login: whose SSH keys the hosts of a project take."""
