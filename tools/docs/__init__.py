"""Generators of the reference pages in docs/, and of `tpuflex.tpu`: `make docs`."""
