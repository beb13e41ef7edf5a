"""lib.py - what the Python tests share: lines "ok NAME" and "not ok NAME: why", and reading a pseudo-terminal."""
import os

failures = []


def check(name, fine, why=""):
    """Says whether `fine` holds; of why not, the last 600 characters."""
    if not fine:
        failures.append(name)
    print(f"ok {name}" if fine else f"not ok {name}: {str(why)[-600:]!r}")


def read_terminal(fd):
    """All that was written to the pseudo-terminal whose master is fd, until its writers are gone; closes fd."""
    seen = b""
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:  # the last writer closed it
            data = b""
        if not data:
            os.close(fd)
            return seen
        seen += data
