"""Faults on demand: rules that say at which call what goes wrong, and how.

``rule`` (what a rule says), ``book`` (which rules strike at which call), ``injector`` (the
hook in the pipeline), ``replies`` (wrong answers), ``processes`` (kill points), ``catalogue``
(the named faults, and random choices among them by seed), ``control`` (the control API).
"""
