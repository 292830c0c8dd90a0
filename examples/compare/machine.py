"""Is the machine idle? Ratios of times are printed only where nobody else used much of it."""
import os
import resource
import sys
import time
from pathlib import Path

# The share of the machine that other processes may use while a ratio is taken.
OTHERS = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def busy():
    """CPU seconds of everybody since the machine was started."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / TICKS


def own():
    """CPU seconds of this process and of its children that have ended."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Watch:
    """Begins as soon as other processes use little of the machine, and then tells what this one and the others used."""

    def __init__(self, patience=60):
        for _ in range(patience):
            before, start = busy(), time.monotonic()
            time.sleep(1)
            if busy() - before <= OTHERS * os.cpu_count() * (time.monotonic() - start):
                break
        else:
            sys.exit("other processes use more than 10 % of this machine: no figure taken")
        self.all, self.mine, self.start = busy(), own(), time.monotonic()

    def own(self):
        """CPU seconds of this process and its children since."""
        return own() - self.mine

    def others(self):
        """The share of the machine that other processes used since."""
        wall = time.monotonic() - self.start
        return max(0.0, busy() - self.all - self.own()) / (wall * os.cpu_count())
