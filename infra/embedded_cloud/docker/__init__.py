"""The ``docker`` of an emulated host: it starts an image's command as a process.

It has no namespaces: network, processes and files are the machine's own. A startup script can
rely on the command line, the container's environment (nothing is inherited), its log, its restart
policy and its name. Options that cannot be honoured are refused by name.
"""
