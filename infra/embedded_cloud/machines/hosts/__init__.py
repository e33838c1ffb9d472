"""Emulated hosts: what runs on READY nodes, with a metadata server each."""
