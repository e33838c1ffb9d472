"""Faults on demand: rules that say at which call what goes wrong, and how.

``rule`` (what a rule says), ``injector`` (the hook in the pipeline: which rules strike at a call,
and wrong answers), ``processes`` (kill points), ``control`` (the control API and the named faults).
"""
