# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own multi-process tests (torch.testing._internal.distributed.distributed_test) on weft, held to what gloo passes.

    distributed.py [--backend weft|gloo] [--worlds 2,3,4,8] [--compare] [--record] [--verbose] [PATTERN...]

Each test's ranks are forked from a process that has loaded torch and the tests, in a session of their own and with a time limit, so
that none can hurt the next one and a hanging or dying rank is told with what it printed. PyTorch decides most skips when the tests
are loaded, by the name of the backend: they are loaded as for gloo, and then run on weft. So weft is asked whatever gloo is asked. What
only MPI is asked (all_to_all on the CPU) is asked of both.

What gloo passes is written down in gloo-VERSION.txt beside this file: the numbers of ranks and the test's name, by --record. A test
there that does not pass on weft is a failure, but for those of DIFFERENT, which must not pass. --compare runs gloo instead of reading the
file. On weft, a test that passes must have moved something by weft (torch_weft.stats()), but for those of SILENT, which must not.
"""

import argparse
import collections
import contextlib
import faulthandler
import fnmatch
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

LIMIT_S = 150  # of one test
PATIENCE_S = 3  # for the other ranks when one has failed
HERE = os.path.dirname(os.path.abspath(__file__))

# Tests that gloo passes and weft does not: what each says then, and nothing else.
DIFFERENT = {
    # PyTorch's C++ names the backend of every plug-in so, and DDP's logged data with it.
    "test_ddp_logging_data_cpu": "String comparison failed: 'custom' != 'weft'",
}

# Tests that ask for no communication, or only for one that must fail.
SILENT = [
    "test_Backend_enum_class",
    "test_DistributedDataParallel_requires_grad",
    "test_all_reduce_coalesced_max_complex_unsupported",
    "test_all_reduce_complex_unsupported_ops",
    "test_barrier_timeout_full_group",
    "test_barrier_timeout_global",
    "test_barrier_timeout_group",
    "test_destroy_full_group",
    "test_destroy_group",
    "test_dump_DDP_relevant_env_vars",
    "test_get_backend",
    "test_get_rank",
    "test_get_rank_size_full_group",
    "test_get_rank_size_group",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_monitored_barrier_gloo_subgroup",
    "test_monitored_barrier_wait_all_ranks",
    "test_new_subgroups_with_group_param",
]


# --- one rank, in a process of its own


class Backend(str):
    """The name "weft", which takes gloo's way where a test asks while it runs."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return str(self) == other or other == "gloo"

    def __ne__(self, other):
        return not self == other


class Count:
    """What weft has moved in this process, groups included that the test destroys."""

    def __init__(self):
        import torch.distributed as dist

        self.before, self.destroy = 0, dist.destroy_process_group
        dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = self.leave

    def now(self):
        from harness import moved

        return self.before + moved()

    def leave(self, group=None):
        before = self.now()
        self.destroy(group)
        self.before += before - self.now()


def run_test(tests, name, rank, size, backend, folder, meeting):
    """One test from its group to the group's end; returns what weft has moved, and raises whatever the test raises."""
    import datetime

    import torch.distributed as dist
    from torch.testing._internal import common_utils

    os.environ.update(TEMP_DIR=folder, BACKEND=backend, TORCH_SHOW_CPP_STACKTRACES="1")
    tests.INIT_METHOD = f"file://{folder}/again"
    count = Count() if backend == "weft" else None
    case = Case(name)
    case.rank, case.file_name = rank, f"{folder}/store"
    case._barrier = lambda wait_for=None, timeout=None: meeting.wait(LIMIT_S)
    timeout = datetime.timedelta(seconds=tests.CUSTOM_PG_TIMEOUT.get(name, tests.default_pg_timeout))
    dist.init_process_group(backend, init_method=case.init_method, rank=rank, world_size=size, timeout=timeout)
    case._barrier()
    common_utils.set_rng_seed()
    getattr(case, name)()
    case._barrier()
    dist.destroy_process_group()
    return count.before if count else 0


def be_rank(tests, name, rank, size, backend, folder, meeting):
    import unittest

    from torch.testing._internal.common_distributed import TEST_SKIPS

    verdict = {"verdict": "bad", "text": "", "moved": 0}
    try:
        os.setsid()
        log = os.open(f"{folder}/log{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number in (1, 2):
            os.dup2(log, number)
        faulthandler.register(signal.SIGUSR1)
        verdict["moved"] = run_test(tests, name, rank, size, backend, folder, meeting)
        verdict["verdict"] = "ok"
    except unittest.SkipTest as skip:
        verdict.update(verdict="skip", text=str(skip))
    except SystemExit as end:
        reasons = [skip.message for skip in TEST_SKIPS.values() if skip.exit_code == end.code]
        verdict.update(verdict="skip", text=reasons[0]) if reasons else verdict.update(text=f"exit with {end.code}")
    except BaseException:
        verdict["text"] = traceback.format_exc()
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
        with open(f"{folder}/out{rank}.new", "w") as out:
            json.dump(verdict, out)
        os.rename(f"{folder}/out{rank}.new", f"{folder}/out{rank}")
    os._exit(verdict["verdict"] == "bad")


# --- all tests with one backend and number of ranks: a process that forks the ranks


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """PyTorch's function refuses all but gloo by name; here is what it does then."""
    import torch.distributed as dist

    group = group or dist.group.WORLD
    if group != dist.GroupMember.NON_GROUP_MEMBER:
        group.monitored_barrier(*([] if timeout is None else [timeout]), wait_all_ranks=wait_all_ranks)


def load(backend, size):
    """PyTorch's tests, and the class Case that has them as methods."""
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(size), TEMP_DIR="/", INIT_METHOD="file:///", MASTER_ADDR="127.0.0.1")
    import torch

    torch.set_num_threads(1)
    from torch.testing._internal.distributed import distributed_test as tests

    global Case

    class Case(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        pass

    for name in tests_of(Case):
        if getattr(getattr(Case, name), "__unittest_skip_why__", "").startswith("Only MPI supports"):
            getattr(Case, name).__unittest_skip__ = False
    if backend == "weft":
        import torch_weft

        if not torch_weft.is_available():
            sys.exit(f"weft is not available: {torch_weft.why_not()}")
        tests.BACKEND = Backend(backend)
        tests.dist.monitored_barrier = monitored_barrier
        for group in [*tests.DistTestCases.backend_feature.values()]:
            group.update({backend} if "gloo" in group else ())
        tests.DistTestCases.backend_feature["plugin"].add(backend)
        for known in (tests.PROFILING_SUPPORTED_BACKENDS, tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
            known.append(backend)
    return tests


def tests_of(case):
    return [name for name in dir(case) if name.startswith("test_")]


def wait_for(pids, folder):
    """Waits for the ranks; one that fails, or none that ends in time, ends them all. Returns each one's exit status, or None."""
    codes, until = {}, time.monotonic() + LIMIT_S
    while len(codes) < len(pids) and time.monotonic() < until:
        for pid in [pid for pid in pids if pid not in codes]:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
                if codes[pid]:
                    until = min(until, time.monotonic() + PATIENCE_S)
        time.sleep(0.005)
    late = [pid for pid in pids if pid not in codes]
    for pid in late:
        os.kill(pid, signal.SIGUSR1)  # says where it is
    time.sleep(0.5 if late else 0)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for pid in late:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return [codes.get(pid) for pid in pids]


def read(path):
    with contextlib.suppress(FileNotFoundError), open(path, errors="replace") as file:
        return file.read()
    return ""


def run_ranks(tests, name, size, backend):
    """One test's verdict: {"verdict": ok, skip or bad, "text", "moved"}."""
    with tempfile.TemporaryDirectory() as folder:
        for inner in ("barrier", "test_dir", "init_dir"):
            os.mkdir(os.path.join(folder, inner))
        meeting = multiprocessing.get_context("fork").Barrier(size)
        pids = []
        for rank in range(size):
            pid = os.fork()
            if pid == 0:
                be_rank(tests, name, rank, size, backend, folder, meeting)
            pids.append(pid)
        codes = wait_for(pids, folder)
        told = [json.loads(read(f"{folder}/out{rank}") or "null") for rank in range(size)]
        if all(mine and mine["verdict"] != "bad" for mine in told) and not any(codes):
            return {**told[0], "moved": sum(mine["moved"] for mine in told)}
        text = []
        for rank, mine in enumerate(told):
            why = "" if codes[rank] in (0, 1) else f", exit code {codes[rank]}" if codes[rank] is not None else ", killed"
            text.append(f"rank {rank}{why}: {mine['text'][-2000:] or mine['verdict'] if mine else 'no result'}")
            printed = read(f"{folder}/log{rank}").strip()
            text += [f"rank {rank} printed:\n{printed[-3000:]}"] if printed else []
        return {"verdict": "bad", "text": "\n".join(text), "moved": 0}


def run_suite(backend, size, patterns, out):
    tests = load(backend, size)
    with open(out, "w", buffering=1) as file:
        for name in tests_of(Case):
            if patterns and not any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                continue
            start = time.monotonic()
            test = getattr(Case, name)
            if getattr(test, "__unittest_skip__", False):
                result = {"verdict": "skip", "text": test.__unittest_skip_why__, "moved": 0}
            else:
                threads = len(os.listdir("/proc/self/task"))
                assert threads == 1, f"{threads} threads before a fork"
                result = run_ranks(tests, name, size, backend)
            file.write(json.dumps({"name": name, "seconds": time.monotonic() - start, **result}) + "\n")


# --- the parent


def suite(backend, size, patterns):
    """All tests of one backend and number of ranks: name -> result."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.abspath(__file__), "--suite", backend, str(size), f"{folder}/out", *patterns]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        code = subprocess.run(command, env=env, check=False).returncode
        results = [json.loads(line) for line in read(f"{folder}/out").splitlines()]
    if code or not results:
        text = f"the process that forks ended with {code} after {len(results)} tests"
        results.append({"name": "the rest", "verdict": "bad", "text": text, "seconds": 0, "moved": 0})
    return {result.pop("name"): result for result in results}


def record_path():
    from importlib.metadata import version

    return os.path.join(HERE, f"gloo-{'.'.join(version('torch').split('+')[0].split('.')[:2])}.txt")


def recorded():
    """The tests that gloo passes, as far as somebody has written it down for this torch: number of ranks -> names."""
    passes = {}
    for line in read(record_path()).splitlines():
        *sizes, name = line.split()
        for size in sizes if not line.startswith("#") else ():
            passes.setdefault(int(size), set()).add(name)
    return passes


def record(passes):
    """Writes that down; what is known of other numbers of ranks stays."""
    passes = {**recorded(), **passes}
    with open(record_path(), "w") as file:
        file.write("# Written by `tests/torch/distributed.py --record`: numbers of ranks, and the test that gloo passes with them.\n")
        for name in sorted(set().union(*passes.values())):
            file.write(" ".join([*(str(size) for size in sorted(passes) if name in passes[size]), name]) + "\n")


def judge(name, result, on_gloo):
    """What is wrong with a test's result on weft, or "". on_gloo: whether gloo passes it."""
    is_ok = result["verdict"] == "ok"
    if is_ok and name in DIFFERENT:
        return "it passes, and is listed in DIFFERENT"
    if is_ok and name in SILENT and result["moved"]:
        return "it has moved something, and is listed in SILENT"
    if is_ok and name not in SILENT and not result["moved"]:
        return "nothing was moved by weft"
    is_as_known = name in DIFFERENT and result["verdict"] == "bad" and DIFFERENT[name] in result["text"]
    if not is_ok and not is_as_known and (on_gloo or result["verdict"] == "bad"):
        return f"gloo {'passes' if on_gloo else 'does not pass either'}; {result['verdict']}: {result['text']}"
    return ""


def unknown(of, on_gloo):
    """What is listed, or gloo passes, and has no result."""
    return [f"{name} is listed, and PyTorch does not have it" for name in [*DIFFERENT, *SILENT, *sorted(on_gloo)] if name not in of]


def show(results, verbose):
    """Prints the figures of [(backend, size, results)]; verbose: also why tests are skipped, and what each took and has moved."""
    for backend, size, of in results:
        reasons = collections.Counter(result["text"] for result in of.values() if result["verdict"] == "skip")
        count = collections.Counter(result["verdict"] for result in of.values())
        seconds = sum(result["seconds"] for result in of.values())
        print(f"{backend}, {size} ranks: {count['ok']} pass, {count['skip']} skip, {count['bad']} fail, {seconds:.0f} s")
        for reason, number in reasons.most_common() if verbose else ():
            print(f"  {number:3} {reason}")
        for name, result in of.items() if verbose else ():
            print(f"  {result['verdict']:4} {result['seconds']:6.2f} s {name} {result['moved']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["weft", "gloo"], default="weft")
    parser.add_argument("--worlds", default="2,3,4,8", help="numbers of ranks")
    parser.add_argument("--compare", action="store_true", help="run gloo, too, instead of reading what it passes")
    parser.add_argument("--record", action="store_true", help="run gloo alone, and write down what it passes")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("patterns", nargs="*", help="names of tests, with * and ?; none: all")
    asked = parser.parse_args()
    if asked.record and asked.patterns:
        parser.error("--record is for all tests")
    worlds = [int(size) for size in asked.worlds.split(",")]
    if asked.record:
        asked.backend = "gloo"
    shown, passed, failed, skipped, passes = [], 0, 0, 0, {}
    for size in worlds:
        of = suite(asked.backend, size, asked.patterns)
        shown.append((asked.backend, size, of))
        there = None if asked.compare else recorded().get(size)
        if asked.backend == "weft" and there is None:
            shown.append(("gloo", size, suite("gloo", size, asked.patterns)))
            there = {name for name, result in shown[-1][2].items() if result["verdict"] == "ok"}
        for text in unknown(of, there) if asked.backend == "weft" and not asked.patterns else ():
            print(f"FAILED: {text}")
            failed += 1
        for name, result in of.items():
            if asked.backend == "weft":
                wrong = judge(name, result, name in there)
            else:
                wrong = result["text"] if result["verdict"] == "bad" else ""
            if wrong:
                print(f"FAILED: {name}, {asked.backend}, {size} ranks: {wrong}", flush=True)
            failed += bool(wrong)
            skipped += not wrong and result["verdict"] != "ok"
            passed += not wrong and result["verdict"] == "ok"
        passes[size] = {name for name, result in of.items() if result["verdict"] == "ok"}
    show(shown, asked.verbose)
    if asked.record:
        record(passes)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0 or passed == 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--suite"]:
        run_suite(sys.argv[2], int(sys.argv[3]), sys.argv[5:], sys.argv[4])
    else:
        sys.exit(main())
