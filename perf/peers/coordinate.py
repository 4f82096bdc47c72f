#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the same sweeps on weft, Open MPI, MPICH, Intel MPI, oneCCL and Gloo, in turns, and prints ratios.

Started by run.sh, which builds the drivers. For each table all libraries are started once, and wait asleep.
For each operation and size, in each repetition, every library gets one turn, in an order shuffled anew: warm-up calls, then a
few samples of back-to-back calls. A sample is the slowest rank's mean time per call; a turn counts by the
median of its samples, a figure is the median over the turns. Since turns of different libraries alternate
within milliseconds, a machine that slows down for a second slows all of them. Starting jobs is measured apart: init.py.
"""

import argparse
import os
import random
import select
import shutil
import statistics
import sys
import tempfile
import time

import init
import libraries
import record
import verdict

OPERATIONS = ("allreduce", "alltoall", "allgather", "broadcast", "pingpong", "window", "init")
DEFAULT_SIZES = {"allreduce": "8,64,256,1K,2K,4K,16K,64K,128K,256K,512K,1M,2M,4M,8M,16M,32M",
                 "others": "8,32,128,512,2K,8K,32K,128K,512K,2M,8M,32M"}
# Tables that an operation runs in unless PEERS_TABLES says which: those that it has targets in.
DEFAULT_TABLES = {"allreduce": ("shm", "tcp", "over"), "pingpong": ("shm", "tcp"), "window": ("tcp",), "others": ("shm",)}
PAIR_OPERATIONS = ("pingpong", "window")  # between two ranks, in tables of two
# How many of what a figure counts a call consists of, where that makes a call long: fewer samples do then.
PARTS = {"window": 64}
HOT_BYTES = 64 << 10          # up to here every call uses the same buffers, where PEERS_BUFFERS does not say which
BUFFERS = ("same", "rotated", "written")  # perf/peers/loop.h
NEAR_NS, FAR_NS = 130, 180    # one way of a cache line: processors nearer than this are near, farther than that far
STATE_SAMPLES_MIN = 5         # for a figure of near processors, or of far ones
TOUCH_BYTES = 64 << 10        # of the arenas, by each library in turn
ARENA_BYTES = 64 << 20        # per direction and rank; at least two of the largest buffer
TURN_US = 8000.0              # what a turn's timed calls take together, about
SAMPLE_US = 50.0              # what a sample takes at least
SAMPLES_MIN = 8               # in a turn, but for windows: a library that learns from its calls has few otherwise where they are long
SIZE_SECONDS = 6.0            # what one size of one table takes at most, about
REPEATS_MIN = 5
START_SECONDS = 30
TURN_SECONDS = 120


def gather(listener, started, ranks):
    """Waits until every rank of every library has said hello. Libraries that do not are returned."""
    waiting = {library.name: library for library in started}
    deadline = time.monotonic() + START_SECONDS
    while waiting and time.monotonic() < deadline:
        if select.select([listener], [], [], 0.1)[0]:
            connection, _ = listener.accept()
            connection.settimeout(TURN_SECONDS)
            stream = connection.makefile("rw", encoding="utf-8")
            connection.close()  # the stream keeps it
            _, name, rank, operations, version = stream.readline().rstrip("\n").split(" ", 4)
            library = waiting.get(name)
            if not library:
                continue
            library.connections[int(rank)] = stream
            library.version, library.operations = version, operations.split(",")
            if len(library.connections) == ranks:
                del waiting[name]
            continue
        for name in [name for name, library in waiting.items() if library.has_ended()]:
            return list(waiting.values()) if len(waiting) == 1 else [waiting[name]]
    return list(waiting.values())


def start_table(table, build, folder, cpus, say):
    """Starts the table's libraries; drops those that are missing or do not start."""
    listener, path = libraries.listen(folder)
    common = {"PEERS_SOCKET": path, "PEERS_CPUS": ",".join(map(str, cpus)), "PEERS_ARENA": str(table["arena"])}
    running = []
    for library in table["make"](build, folder, len(cpus)):
        if library.missing:
            say(f"# absent: {library.name}: {library.missing}")
            continue
        library.start(folder, common, looks=table["ranks"] == len(cpus) == 2)
        absent = gather(listener, [library], table["ranks"])
        if absent:
            say(f"# absent: {library.name} did not start: {library.log_tail()}")
            library.stop()
        else:
            running.append(library)
    listener.close()
    touch(running, table["arena"], say)
    return running


def ask(library, line):
    """Says the line to all ranks. Their answers: per rank a list of microseconds, and nanoseconds to the other rank before and after."""
    try:
        for _, stream in sorted(library.connections.items()):
            stream.write(line + "\n")
            stream.flush()
        times = []
        for rank, stream in sorted(library.connections.items()):
            words = stream.readline().split()
            if not words or words[0] != "times":
                raise libraries.Failed(f"rank {rank}: {' '.join(words[1:]) or 'hung up'}")
            samples = [[float(part) for part in word.split("/")] for word in words[1:]]
            times.append([(time_ns / 1e3, before_ns, after_ns) for time_ns, before_ns, after_ns in samples])
    except OSError as error:
        raise libraries.Failed(str(error) or "no answer in time") from error
    return times


def touch(running, arena_bytes, say):
    """Writes all arenas for the first time, in turns: that all libraries get the same mixture of pages."""
    for at in range(0, arena_bytes, TOUCH_BYTES):
        for library in list(running):
            try:
                ask(library, f"touch {at} {TOUCH_BYTES}")
            except libraries.Failed as error:
                drop(running, library, error, say)


def state_of(before_ns, after_ns):
    """How far the processors were around a sample: near, far, or neither for sure."""
    if 0 < before_ns < NEAR_NS and 0 < after_ns < NEAR_NS:
        return "near"
    return "far" if min(before_ns, after_ns) > FAR_NS else None


def take_turn(library, operation, size, calls, samples, warmups, buffers, variant):
    """One turn: the slowest rank's microseconds per call, for each sample, and how far the processors were."""
    answers = ask(library, f"run {operation} {size} {calls} {samples} {warmups} {buffers} {variant}")
    return [(max(time for time, _, _ in column), state_of(*column[0][1:])) for column in zip(*answers)]


class Cell:
    """One entry at one size."""

    def __init__(self, label, library, variant, operation, size, buffers):
        self.label, self.library, self.variant = label, library, variant
        self.operation, self.size, self.buffers = operation, size, buffers
        self.calls = self.samples = 1
        self.turns_us = []
        self.states_us = {"near": [], "far": []}

    def estimate_us(self):
        """What a call takes, about."""
        ask(self.library, f"check {self.operation} {self.size} {self.variant}")
        samples = take_turn(self.library, self.operation, self.size, 1, 3, 2, self.buffers, self.variant)
        return max(min(time for time, _ in samples), 0.01) * PARTS.get(self.operation, 1)

    def plan(self, estimate_us):
        """How many calls a turn has, the same for all entries of a size. Returns it."""
        parts = PARTS.get(self.operation, 1)
        self.calls = max(1, min(1000, round(SAMPLE_US / estimate_us)))
        self.samples = max(SAMPLES_MIN if parts == 1 else 1, min(50, round(TURN_US / (estimate_us * self.calls))))
        self.warmups = max(2 if parts == 1 else 1, min(200, round(500.0 / estimate_us)))
        return self.calls * self.samples + self.warmups

    def turn(self):
        samples = take_turn(self.library, self.operation, self.size, self.calls, self.samples, self.warmups,
                            self.buffers, self.variant)
        self.turns_us.append(statistics.median(time for time, _ in samples))
        for time, state in samples:
            if state:
                self.states_us[state].append(time)

    def row(self):
        states = {}
        for state, times in self.states_us.items():
            states[state + "_samples"] = len(times)
            if len(times) >= STATE_SAMPLES_MIN:
                states[state + "_us"] = statistics.median(times)
        return {"entry": self.label, "size_bytes": self.size, "buffers": self.buffers, **states,
                "time_us": statistics.median(self.turns_us), "fastest_us": min(self.turns_us), "calls_per_sample": self.calls,
                "samples_per_turn": self.samples, "warmups_per_turn": self.warmups,
                "turns_us": [round(value, 4) for value in self.turns_us]}


def drop(running, library, error, say):
    say(f"# {library.name} failed and is left out from here: {error}: {library.log_tail()}")
    library.stop()
    running.remove(library)


def run_size(running, operation, size, buffers, repeats, shuffle, say):
    """All entries of one operation at one size, in turns."""
    cells, estimates_us, started = [], [], time.monotonic()
    for library in [library for library in running if operation in library.operations]:
        try:
            for label, variant in library.entries_of(operation).items():
                cell = Cell(label, library, variant, operation, size, buffers)
                estimates_us.append(cell.estimate_us())
                cells.append(cell)
        except libraries.Failed as error:
            drop(running, library, error, say)
    seconds = (time.monotonic() - started) / 2
    planned_us = [cell.plan(statistics.median(estimates_us)) * estimate_us for cell, estimate_us in zip(cells, estimates_us)]
    seconds = max(seconds, sum(planned_us) / 1e6)
    repeats = max(min(repeats, REPEATS_MIN), min(repeats, int(SIZE_SECONDS / max(seconds, 1e-3))))
    for _ in range(repeats):
        shuffle.shuffle(cells)
        for cell in cells:
            if cell.library not in running:
                continue
            try:
                cell.turn()
            except libraries.Failed as error:
                drop(running, cell.library, error, say)
    return [cell.row() for cell in cells if cell.library in running]


def loopback_bytes():
    try:
        with open("/proc/net/dev", encoding="ascii") as file:
            for line in file:
                name, _, counters = line.partition(":")
                if name.strip() == "lo":
                    return int(counters.split()[0])
    except OSError:
        pass
    return None


def check_loopback(running, say):
    """That what claims to use TCP does: a call of 1 MB must show on the loopback interface."""
    size = 1 << 20
    for library in list(running):
        before = loopback_bytes()
        try:
            operation = "allreduce" if "allreduce" in library.operations else "pingpong"
            take_turn(library, operation, size, 1, 1, 1, "same", 0)
        except libraries.Failed as error:
            drop(running, library, error, say)
            continue
        after = loopback_bytes()
        if before is not None and after - before < size:
            say(f"# note: {library.name} moved only {after - before} bytes over loopback for 2 MB: not TCP?")


def run_operation(table, operation, use, running, processors, options, say, progress):
    """One operation's sweep over the sizes, as it goes into the JSON. use: one of BUFFERS, or None: by the size."""
    rows, sizes, shuffle = [], options.sizes[table["name"]][operation], random.Random(1)
    started = [{"library": library.name, "version": library.version,
                "entries": list(library.entries_of(operation)), "command": library.command[0],
                "environment": library.environment} for library in running if operation in library.operations]
    for index, size in enumerate(sizes):
        progress(f"{operation}, {table['title']}: {record.name_size(size)} ({index + 1}/{len(sizes)})")
        buffers = use or ("rotated" if size > HOT_BYTES else "same")
        rows += run_size(running, operation, size, buffers, options.repeats, shuffle, say)
    return {"name": table["name"], "operation": operation, "buffers": use or "by size", "title": table["title"], "ranks": table["ranks"],
            "processors": processors, "arena_bytes": table["arena"], "libraries": started,
            "rows": verdict.with_bound(rows, verdict.STATISTICS[options.statistic])}


def run_table(name, operations, options, say, progress, done):
    """Starts the table's libraries once and runs the operations; done() takes each one's result."""
    table = {"name": name, **libraries.TABLES[name]}
    ranks = table["ranks"]
    cpus = sorted(os.sched_getaffinity(0))[:table.get("cpus", ranks)]
    blocks = [(ranks if operation in ("alltoall", "allgather") else 1) * max(options.sizes[name][operation])
              for operation in operations]
    table["arena"] = max(ARENA_BYTES, 2 * max(blocks))
    if len(cpus) < table.get("cpus", ranks):
        say(f"# table {name}: only {len(cpus)} processors: ranks share them")
    folder = tempfile.mkdtemp(prefix="weft-peers-")
    running = []
    try:
        running = start_table(table, options.build, folder, cpus, say)
        if name == "tcp":
            check_loopback(running, say)
        for operation in operations:
            for use in options.buffers:
                done(run_operation(table, operation, use, running, cpus, options, say, progress))
    finally:
        for library in running:
            library.stop()
        keep_logs(folder, os.path.join(options.build, "peers", "logs", name))
        shutil.rmtree(folder, ignore_errors=True)


def keep_logs(folder, target):
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".log"):
            shutil.copy(os.path.join(folder, name), target)


def parse_list(parser, name, text, known):
    """The words of a list, checked, in the order of what is known."""
    words = text.replace(",", " ").split()
    for word in words:
        if word not in known:
            parser.error(f"{name} '{word}': expected a list of {', '.join(known)}")
    return [word for word in known if word in words]


def parse_sizes(parser, text):
    try:
        sizes = sorted({record.parse_size(size) // 4 * 4 for size in text.replace(",", " ").split()})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 4:
        parser.error(f"PEERS_SIZES '{text}': expected sizes of at least 4 bytes such as 8,4K,32M")
    return sizes


def of(defaults, operation):
    return defaults.get(operation, defaults["others"])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--operations", default=os.environ.get("PEERS_OPERATIONS", ",".join(OPERATIONS)))
    parser.add_argument("--sizes", default=os.environ.get("PEERS_SIZES"))
    parser.add_argument("--repeats", type=int, default=int(os.environ.get("PEERS_REPEATS", "21")))
    parser.add_argument("--statistic", default=os.environ.get("PEERS_STATISTIC", "median"),
                        choices=sorted(verdict.STATISTICS))
    parser.add_argument("--tables", default=os.environ.get("PEERS_TABLES"))
    parser.add_argument("--buffers", default=os.environ.get("PEERS_BUFFERS"), help="of " + ", ".join(BUFFERS))
    parser.add_argument("--init-ranks", default=os.environ.get("PEERS_INIT_RANKS", "2,4,8"), help="of init")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.operations = parse_list(parser, "PEERS_OPERATIONS", options.operations, OPERATIONS)
    options.buffers = parse_list(parser, "PEERS_BUFFERS", options.buffers, BUFFERS) if options.buffers else [None]
    tables = parse_list(parser, "PEERS_TABLES", options.tables or "shm,tcp,over", libraries.TABLES)
    options.tables = {table: [operation for operation in options.operations
                              if operation != "init" and (options.tables or table in of(DEFAULT_TABLES, operation))
                              and (operation not in PAIR_OPERATIONS or libraries.TABLES[table]["ranks"] == 2)]
                      for table in tables}
    options.tables = {table: operations for table, operations in options.tables.items() if operations}
    options.sizes = {table: {operation: parse_sizes(parser, options.sizes
                                                    or libraries.TABLES[table].get("sizes", {}).get(operation)
                                                    or of(DEFAULT_SIZES, operation)) for operation in operations}
                     for table, operations in options.tables.items()}
    try:
        options.init_ranks = sorted({int(ranks) for ranks in options.init_ranks.replace(",", " ").split()})
    except ValueError:
        options.init_ranks = []
    if not options.init_ranks or options.init_ranks[0] < 1:
        parser.error("PEERS_INIT_RANKS: expected numbers of ranks such as 2,4,8")
    if options.repeats < 1:
        parser.error("PEERS_REPEATS must be positive")
    return options


def main():
    options = arguments()
    on_terminal = sys.stderr.isatty()

    def progress(text):
        if on_terminal:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()

    def say(text):
        progress("")
        print(text, flush=True)

    document = {"schema": 4, "program": "perf-peers", "machine": record.machine(),
                "parameters": {"operations": options.operations, "sizes_bytes": options.sizes,
                               "repeats": options.repeats, "buffers": [use or "by size" for use in options.buffers], "hot_bytes": HOT_BYTES,
                               "near_ns": NEAR_NS, "far_ns": FAR_NS, "turn_us": TURN_US,
                               "sample_us": SAMPLE_US, "statistic": options.statistic, "type": "float32", "redop": "sum",
                               "in_place": False},
                "tables": [], "init": None}
    say(f"# {document['machine']['cpu']}, {document['machine']['processors']} processors, "
        f"load {document['machine']['load_average']:.2f}; float32, sums, out of place, pinned, in turns")
    if options.buffers == [None]:
        say(f"# up to {record.name_size(HOT_BYTES)} the same buffers every call (hot); above, rotated through at least "
            f"{record.name_size(ARENA_BYTES)} of input and as much output per rank (cold)")

    def done(table):
        document["tables"].append(table)
        progress("")
        verdict.print_table(table, record.name_size, options.statistic)
        verdict.print_states(table, record.name_size)

    for name, operations in options.tables.items():
        run_table(name, operations, options, say, progress, done)
    if "init" in options.operations:
        document["init"] = init.run(options, say, progress)
        progress("")
        init.print_table(document["init"], options.statistic)
    document["targets"] = verdict.judge(document["tables"], record.name_size, options.statistic)
    if document["init"]:
        document["targets"] += init.judge(document["init"], options.statistic)
    verdict.print_targets(document["targets"], options.statistic)
    verdict.print_ahead(document["tables"], record.name_size)
    verdict.print_regrets(document["tables"], record.name_size, options.statistic)
    path = os.path.join(options.build, "peers", "peers.json")
    record.write_json(path, document)
    print(f"# written: {os.path.relpath(path)}")
    return 0 if any(table["rows"] for table in document["tables"]) or document["init"] else 1


if __name__ == "__main__":
    sys.exit(main())
