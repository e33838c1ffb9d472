"""Stands where a serving image has vLLM's server: this directory is on the container's path."""

from embedded_cloud.machines.stand_in.server import main

main()
