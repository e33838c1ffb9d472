"""The program that copies a model of the Hub, or of another bucket, into a bucket, on a machine in
that bucket's region.

Standard library only: the machine has Python, and nothing else is installed there. The command line
packs these modules into the machine's startup script (:mod:`tpuflex.operate.region_copy`).
"""
