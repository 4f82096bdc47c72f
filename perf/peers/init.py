# SPDX-License-Identifier: Apache-2.0
"""How long a fresh job takes until its first allreduce is done, in turns: every turn is a job from nothing.

Two figures per job. "job" is from the start of the launcher (mpirun for the MPIs; weft and Gloo have none here and are
started as processes directly) until the last rank is done: what a user waits. "ranks" is from the moment when the last
rank's main() began until the last rank is done: what the library takes, without launcher and loader.
"""

import os
import random
import shutil
import select
import statistics
import tempfile
import time

import libraries
import verdict

REPEATS_MAX = 11
JOB_SECONDS = 30
ENTRIES = ("weft", "openmpi", "mpich", "gloo")


def makers(build, ranks, folder, cpus):
    """{entry: what makes its library anew}"""
    return {"weft": lambda: libraries.weft(build, ranks, "weft", {"WEFT_TRANSPORT": "shm"}),
            "openmpi": lambda: libraries.openmpi(build, ranks, cpus),
            "mpich": lambda: libraries.mpich(build, ranks),
            "gloo": lambda: libraries.gloo(build, ranks, folder)}


def listen_to(listener, library, ranks):
    """What the ranks of a started library report: (main() began, first allreduce done) per rank."""
    reports, deadline = {}, time.monotonic() + JOB_SECONDS
    while len(reports) < ranks:
        if time.monotonic() > deadline:
            raise libraries.Failed(f"only {len(reports)} of {ranks} ranks started in {JOB_SECONDS} s")
        if not select.select([listener], [], [], 0.1)[0]:
            if any(process.poll() not in (None, 0) for process in library.processes):
                raise libraries.Failed("a process ended early")
            continue
        connection, _ = listener.accept()
        with connection, connection.makefile("r", encoding="utf-8") as stream:
            words = stream.readline().split()
        if len(words) != 4 or words[0] != "ready":
            raise libraries.Failed(" ".join(words))
        reports[int(words[1])] = (int(words[2]), int(words[3]))
    return list(reports.values())


def start_once(build, entry, ranks, processors):
    """One job: (job, ranks) in microseconds."""
    folder = tempfile.mkdtemp(prefix="weft-peers-")
    library = makers(build, ranks, folder, len(processors))[entry]()
    if library.missing:
        shutil.rmtree(folder, ignore_errors=True)
        raise libraries.Failed(library.missing)
    listener, path = libraries.listen(folder)
    try:
        # CLOCK_MONOTONIC, which the ranks read as well.
        started_ns = time.monotonic_ns()
        library.start(folder, {"PEERS_SOCKET": path, "PEERS_CPUS": ",".join(map(str, processors)), "PEERS_INIT": "1"})
        try:
            reports = listen_to(listener, library, ranks)
        except libraries.Failed as error:
            raise libraries.Failed(f"{error}: {library.log_tail()}") from error
        done_ns = max(done for _, done in reports)
        return (done_ns - started_ns) / 1e3, (done_ns - max(start for start, _ in reports)) / 1e3
    finally:
        listener.close()
        library.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run_ranks(build, ranks, repeats, processors, say):
    """All entries with one number of ranks, in turns; each one's first job only warms the caches of files."""
    figures, shuffle = {entry: [] for entry in ENTRIES}, random.Random(1)
    for turn in range(repeats + 1):
        order = list(figures)
        shuffle.shuffle(order)
        for entry in order:
            try:
                figure = start_once(build, entry, ranks, processors)
                if turn > 0:
                    figures[entry].append(figure)
            except libraries.Failed as error:
                say(f"# absent: {entry} with {ranks} ranks: {error}")
                del figures[entry]
    return figures


def run(options, say, progress):
    """All numbers of ranks, as it goes into the JSON."""
    processors = sorted(os.sched_getaffinity(0))
    rows = []
    for ranks in options.init_ranks:
        progress(f"init, {ranks} ranks")
        for entry, turns in run_ranks(options.build, ranks, min(options.repeats, REPEATS_MAX), processors, say).items():
            row = {"entry": entry, "ranks": ranks}
            for kind, values in zip(("job", "ranks"), zip(*turns)):
                row.update({f"{kind}_us": statistics.median(values), f"{kind}_fastest_us": min(values),
                            f"{kind}_turns_us": [round(value, 1) for value in values]})
            rows.append(row)
    return {"title": "init: until the first allreduce of a fresh job is done", "processors": processors, "rows": rows}


def key_of(kind, statistic):
    return f"{kind}_us" if statistic == "median" else f"{kind}_fastest_us"


def print_table(table, statistic):
    print(f"\n# {table['title']}; processors {', '.join(map(str, table['processors']))}; {statistic}, in ms")
    print("# job: from the start of the launcher, where there is one; ranks: from the last rank's main()")
    entries = [entry for entry in ENTRIES if any(row["entry"] == entry for row in table["rows"])]
    print(f"{'ranks':>8}" + "".join(f"{entry + ' ' + kind:>15}" for kind in ("job", "ranks") for entry in entries))
    for ranks in sorted({row["ranks"] for row in table["rows"]}):
        cells = {row["entry"]: row for row in table["rows"] if row["ranks"] == ranks}
        print(f"{ranks:>8}" + "".join(
            f"{cells[entry][key_of(kind, statistic)] / 1e3 if entry in cells else float('nan'):>15.1f}"
            for kind in ("job", "ranks") for entry in entries))


def judge(table, statistic):
    targets = []
    for ranks in sorted({row["ranks"] for row in table["rows"]}):
        for kind in ("job", "ranks"):
            times = {row["entry"]: row[key_of(kind, statistic)] for row in table["rows"] if row["ranks"] == ranks}
            targets.append(verdict.against_better(f"init of {ranks} ranks ({kind})", times, "weft"))
    return targets
