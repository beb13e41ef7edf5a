"""lib.py - what the Python tests share: lines "ok NAME" and "not ok NAME: why", reading a pseudo-terminal and
the keys of a GGUF."""
import os
import struct

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


GGUF_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def gguf_records(data):
    """-> (key, record bytes) of each, and where the tensor infos begin."""
    n_keys, at, records = struct.unpack_from("<Q", data, 16)[0], 24, []

    def string(at):
        return at + 8 + struct.unpack_from("<Q", data, at)[0]

    def value(at, kind):
        if kind == 8:
            return string(at)
        if kind == 9:
            kind, n = struct.unpack_from("<IQ", data, at)
            at += 12
            for _ in range(n):
                at = value(at, kind)
            return at
        return at + GGUF_SIZES[kind]

    for _ in range(n_keys):
        begin, after = at, string(at)
        key = data[begin + 8:after]
        at = value(after + 4, struct.unpack_from("<I", data, after)[0])
        records.append((key, data[begin:at]))
    return records, at
