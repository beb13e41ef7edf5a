#!/usr/bin/env python3
"""rank_memory.py RUN_MPI MODEL [RANKS...] - resident weights of each rank while it generates.

Prints for each number of ranks: bytes of the model's file that are resident as mapped pages, the copies of wo and down
(anonymous memory beyond what a run with one rank has for its cache and buffers is not weights), and the share of the
whole file. Linux: reads /proc/PID/smaps.
"""
import os, re, subprocess, sys, time


def mapped(pid, name):
    """Resident bytes of the mapping(s) of a file, and the process's anonymous resident bytes."""
    total, anon, here = 0, 0, False
    for line in open(f"/proc/{pid}/smaps"):
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            here = name in line
        elif here and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("RssAnon:"):
            anon = int(line.split()[1]) * 1024
    return total, anon


def processes(program, model):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0].decode(errors="replace").endswith(os.path.basename(program)) and model.encode() in words:
            found.append(int(pid))
    return sorted(found)


def main():
    program, model, ranks = sys.argv[1], sys.argv[2], [int(n) for n in sys.argv[3:]] or [1, 2, 3]
    whole = os.path.getsize(model)
    print("ranks  rank  mapped MB  anonymous MB  mapped share of the file")
    for n in ranks:
        job = subprocess.Popen(["mpirun", "-q", "--oversubscribe", "-n", str(n), program, model, "-t", "0", "-n", "400", "-c",
                                "512", "-j", "1", "-i", "Once upon a time", "--quiet"], stdout=subprocess.DEVNULL)
        time.sleep(6)
        for rank, pid in enumerate(processes(program, model)):
            resident, anon = mapped(pid, os.path.basename(os.path.realpath(model)))
            print(f"{n:5} {rank:5} {resident / 1e6:10.1f} {anon / 1e6:13.1f} {resident / whole:10.3f}")
        job.kill()
        job.wait()


main()
