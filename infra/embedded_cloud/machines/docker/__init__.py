"""The ``docker`` of an emulated host: it starts an image's command as a process.

A container on a bridge has a network namespace of its own, without any way out; its processes and
programs, and the network of one on `--network host`, are the machine's. With `hosts.own_mounts` of
the strictness it sees of the host what is mounted, at its target alone, and has a /dev/shm of its
size. A startup script can rely on the command line, the container's environment (nothing is
inherited), its log, its restart policy, its name, its published ports and the capabilities that it
lost. Options that cannot be honoured are refused by name.
"""
