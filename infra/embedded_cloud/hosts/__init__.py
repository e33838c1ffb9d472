"""Emulated hosts: what runs on READY nodes and RUNNING instances, with a metadata server each."""
