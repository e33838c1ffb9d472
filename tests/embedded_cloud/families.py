"""Programs with children, and one that ends politely: whom a kill can strike."""

from __future__ import annotations

from collections.abc import Callable

import psutil

#: A parent with two children: one whose command line names the provider, one that sleeps.
FAMILY = """
import subprocess, sys, time
sleep = "import time; time.sleep(60)"
subprocess.Popen([sys.executable, "-c", sleep, "-m", "tpuflex.plugin"])
subprocess.Popen([sys.executable, "-c", sleep])
print("up", flush=True)
time.sleep(60)
"""
POLITE = """
import signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda n, _: sys.exit(n))
print("up", flush=True)
time.sleep(60)
"""

#: Starts a program and returns its process once it is up.
Spawn = Callable[[str], psutil.Process]
