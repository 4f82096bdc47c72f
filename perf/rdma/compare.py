#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs perftest (ib_write_lat, ib_write_bw) and weft-perf on one RDMA device, in turns, and prints ratios.

Started by run.sh. Both run as two processes on this system, pinned to the same two processors, over the same port, GID
and MTU. In each repetition every program has one turn, in an order shuffled anew, and is started for it; a
figure is the median over the turns, so that a machine that slows down for a while slows all of them.

What is compared. ib_write_lat writes 8 bytes inline into the memory of the other process, which polls that memory and
writes back; half of the median round trip. Nothing is cheaper over the device. weft's messages are sends that carry
headers, meet a receive that is looked up, and arrive as completions. ib_write_bw keeps as many writes of 1 MiB
in flight as weft-perf keeps messages; the writes all go to the same memory, weft's messages to memory of their own.

In the virtual machine the device is threads of the kernel, on the processors that the programs poll on. A program that
polls keeps such a thread waiting for a time slice of 4 ms, whatever else it does, so there the programs have the
scheduling policy "idle": whatever is not of that policy goes before them at once, as a device would. Where the
threads run is the kernel's choice, which turns of all programs depend on: docs/rdma-measurements.md, "Beside perftest".
"""

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers"))
import record  # noqa: E402  pylint: disable=wrong-import-position
import verdict  # noqa: E402  pylint: disable=wrong-import-position

BANDWIDTH_BYTES = 1 << 20
WARMUPS = 20
SOFTWARE_DEVICE = "WEFT_VM" in os.environ


class Failed(Exception):
    pass


def said(path):
    """What a program has said, without its table."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith(("#", "--"))]
    return "; ".join(lines[-3:]) or "it said nothing"


def placed(cpu):
    """What a program does first: goes to its processor, and below everything else when the device is software."""
    def place():
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        if SOFTWARE_DEVICE:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    return place


def listens(port):
    """Whether somebody on this system waits for connections at the port."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, encoding="ascii") as file:
                if any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in file):
                    return True
        except OSError:
            pass
    return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class Rig:
    """Where and how the programs run."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        cpus = sorted(os.sched_getaffinity(0))
        self.cpus = cpus[:2] if len(cpus) > 1 else [None, None]
        self.perf = os.path.join(options.build, "weft-perf")
        self.port = []  # of perftest's choice of GID and MTU

    def start(self, name, cpu, command):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as log:
            return path, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                          preexec_fn=placed(cpu))

    def finish(self, path, process, what):
        try:
            status = process.wait(self.options.seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failed(f"{what} was not done after {self.options.seconds} s") from None
        if status:
            raise Failed(f"{what}: exit status {status}: {said(path)}")

    def perftest(self, arguments):
        """One turn of a perftest program: the words of its last line of figures."""
        port = free_port()
        command = [*arguments, "-d", self.options.device.split(":")[0], "-F", "-p", str(port), *self.port]
        server_log, server = self.start("server", self.cpus[0], command)
        try:
            deadline = time.monotonic() + self.options.seconds
            while not listens(port):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"{arguments[0]} does not start: {said(server_log)}")
                time.sleep(0.02)
            log, client = self.start("client", self.cpus[1], [*command, "127.0.0.1"])
            self.finish(log, client, arguments[0])
            self.finish(server_log, server, arguments[0])
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
        with open(log, encoding="utf-8") as file:
            rows = [words for words in map(str.split, file) if words and words[0].isdigit() and len(words) > 4]
        if not rows:
            raise Failed(f"{arguments[0]} has printed no figures: {said(log)}")
        return rows[-1]

    def weft(self, arguments):
        """One turn of weft-perf: its JSON."""
        path = os.path.join(self.folder, "weft.json")
        command = [self.perf, *arguments, "--ranks", "2", "--transport", "verbs", "--device", self.options.device,
                   "--pin", "1" if self.cpus[0] is not None else "0", "--json", path]
        log, process = self.start("weft", None, command)
        self.finish(log, process, "weft-perf")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def meet(self):
        """A first message, checked: which port, GID and MTU weft uses. perftest is to use the same."""
        found = self.weft(["p2p-lat", "-b", "8", "-e", "8", "-n", "5"])
        row, rails = found["rows"][0], found["environment"]["rails"]
        if row["transport"] != "verbs" or not rails:
            raise Failed("weft does not use the device")
        rail = rails[0]
        self.port = ["-i", str(rail["port"]), "-m", str(rail["mtu_bytes"])]
        if rail["link_layer"] == "Ethernet":
            self.port += ["-x", str(rail["gid_index"])]
        return rail


# What takes turns: each returns its median microseconds, or, of bandwidths, the mean per message.

def write_lat(rig):
    words = rig.perftest(["ib_write_lat", "-s", "8", "-n", str(rig.options.iterations)])
    return float(words[4])


def write_bw(rig):
    options = rig.options
    words = rig.perftest(["ib_write_bw", "-s", str(BANDWIDTH_BYTES), "-n", str(max(5, options.windows * options.window)),
                          "-t", str(options.window), "--report_gbits"])
    rate = float(words[3])
    if not rate:
        raise Failed("ib_write_bw reports 0.00 Gb/s")
    return BANDWIDTH_BYTES * 8 / rate / 1e3


def small(rig, arguments):
    found = rig.weft([*arguments, "-b", "8", "-e", "8", "-w", str(WARMUPS), "-n", str(rig.options.iterations), "-c", "1"])
    return found["rows"][0]["time_us"]


def p2p_lat(rig):
    return small(rig, ["p2p-lat"])


def allreduce(rig):
    return small(rig, ["allreduce", "--in-place", "0"])


def p2p_bw(rig):
    options = rig.options
    found = rig.weft(["p2p-bw", "-b", str(BANDWIDTH_BYTES), "-e", str(BANDWIDTH_BYTES), "-w", "2", "-n",
                      str(options.windows), "--window", str(options.window), "-c", "1"])
    return statistics.mean(found["rows"][0]["samples_us"])


GROUPS = {"8 B": {"ib_write_lat": write_lat, "p2p-lat": p2p_lat, "allreduce": allreduce},
          "1 MB": {"ib_write_bw": write_bw, "p2p-bw": p2p_bw}}


def run_group(rig, programs, turns, shuffle, say):
    """All programs of one size, in turns."""
    for _ in range(rig.options.repeats):
        order = [name for name in programs if name in turns]
        shuffle.shuffle(order)
        for name in order:
            try:
                turns[name].append(programs[name](rig))
            except Failed as error:
                say(f"# {name} failed and is left out from here: {error}")
                del turns[name]


def figures(turns, statistic):
    """{program: microseconds}"""
    choose = min if statistic == "fastest" else statistics.median
    return {name: choose(list_) for name, list_ in turns.items() if list_}


def judge(times):
    lines = (("2 ranks, 1 MB messages: bandwidth of weft / ib_write_bw", "ib_write_bw", "p2p-bw", 0.9, True),
             ("2 ranks, 8 B message: time of weft / ib_write_lat", "p2p-lat", "ib_write_lat", 1.3, False),
             ("2 ranks, 8 B allreduce: time of weft / ib_write_lat", "allreduce", "ib_write_lat", 1.6, False))
    targets = []
    for title, above, below, limit, at_least in lines:
        absent = [name for name in (above, below) if name not in times]
        ratio = 0 if absent else times[above] / times[below]
        targets.append(verdict.target(title, ratio, limit, at_least,
                                      f"{' and '.join(absent)} did not run" if absent else None))
    return targets


def print_times(turns, times, rail):
    print(f"{'':>14}{'time (us)':>12}{'fastest':>12}{'GB/s':>10}{'line (%)':>10}   turns (us)")
    fastest = figures(turns, "fastest")
    for programs in GROUPS.values():
        for name in [name for name in programs if name in times]:
            speed, share = "", ""
            if name in GROUPS["1 MB"]:
                speed = f"{BANDWIDTH_BYTES / times[name] / 1e3:.3f}"
                share = f"{BANDWIDTH_BYTES / times[name] / 1e3 / rail['gbs'] * 100:.1f}" if rail["gbs"] else "-"
            each = " ".join(f"{median:.0f}" for median in turns[name])
            print(f"{name:>14}{times[name]:>12.2f}{fastest[name]:>12.2f}{speed:>10}{share:>10}   {each}")


def arguments():
    def setting(name, default):
        return os.environ.get(name) or default
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=setting("BUILD", "build"))
    parser.add_argument("--device", default=setting("RDMA_DEVICE", setting("WEFT_RDMA_DEVICE", "")).split(",")[0])
    parser.add_argument("--repeats", type=int, default=int(setting("RDMA_REPEATS", "7")))
    parser.add_argument("--iterations", type=int, default=int(setting("RDMA_ITERATIONS", "2000")))
    parser.add_argument("--window", type=int, default=int(setting("RDMA_WINDOW", "16")))
    parser.add_argument("--windows", type=int, default=int(setting("RDMA_WINDOWS", "20")))
    parser.add_argument("--seconds", type=int, default=60, help="what a turn takes at most")
    parser.add_argument("--statistic", default=setting("RDMA_STATISTIC", "median"), choices=sorted(verdict.STATISTICS))
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    if not options.device:
        parser.error("no device: expected RDMA_DEVICE, such as mlx5_0")
    for name in ("repeats", "window", "windows"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be positive")
    if options.iterations < 5:
        parser.error("--iterations is at least 5")
    return options


def main():
    options = arguments()

    def say(text):
        print(text, flush=True)

    folder = tempfile.mkdtemp(prefix="weft-rdma-")
    turns = {name: [] for programs in GROUPS.values() for name in programs}
    for name in [name for name in turns if name.startswith("ib_") and not shutil.which(name)]:
        say(f"# absent: {name}: apt-get install perftest")
        del turns[name]
    try:
        rig = Rig(options, folder)
        try:
            rail = rig.meet()
        except (Failed, OSError) as error:
            print(f"perf-rdma: device {options.device}: {error}", file=sys.stderr)
            return 1
        machine = record.machine()
        say(f"# {machine['cpu']}, {machine['processors']} processors, load {machine['load_average']:.2f}, "
            f"{machine['system']}{', virtual machine of tests/vm' if os.environ.get('WEFT_VM') else ''}")
        say(f"# {rail['device']}:{rail['port']} to itself, {rail['link_layer']}, GID {rail['gid_index']} {rail['gid']}, "
            f"MTU {rail['mtu_bytes']}, line rate {rail['gbs']:.3f} GB/s; processors "
            f"{', '.join(map(str, rig.cpus))}; {options.repeats} turns each, {options.iterations} round trips, "
            f"{options.windows} times {options.window} messages of 1 MB")
        shuffle = random.Random(1)
        for programs in GROUPS.values():
            run_group(rig, programs, turns, shuffle, say)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    times = figures(turns, options.statistic)
    print_times(turns, times, rail)
    targets = judge(times)
    verdict.print_targets(targets, options.statistic)
    if options.statistic != "fastest":
        ratios = [target.get("measured", "-") for target in judge(figures(turns, "fastest"))]
        say(f"# the same ratios of the fastest turns: {', '.join(map(str, ratios))}")
    os.makedirs(os.path.join(options.build, "rdma-perf"), exist_ok=True)
    path = os.path.join(options.build, "rdma-perf", "rdma.json")
    record.write_json(path, {"schema": 1, "program": "perf-rdma", "machine": machine, "rail": rail,
                             "parameters": {name: getattr(options, name) for name in
                                            ("device", "repeats", "iterations", "window", "windows", "statistic")},
                             "turns_us": turns,
                             "time_us": times, "targets": targets})
    say(f"# written: {os.path.relpath(path)}")
    return 0 if any(name in times for name in ("p2p-lat", "p2p-bw")) else 1


if __name__ == "__main__":
    sys.exit(main())
