# SPDX-License-Identifier: Apache-2.0
"""Cases that ranks run together, on weft and on gloo.

A file of cases is a module; its cases are functions that @case marks. Each is called as body(rank, size) on every rank, with the
default group there, and asserts by itself; what it returns is compared, bit for bit, between the two backends. All cases of a file
run one after the other in the same processes, per backend and number of ranks; one that fails ends these processes, and the
cases behind it start in new ones.

On weft every case must have moved something by weft: what communicators count (torch_weft.stats()) must have grown.
"""

import contextlib
import datetime
import os
import pickle
import sys
import tempfile
import time
import traceback
import warnings

import forking

TIMEOUT_S = 60  # of one case
PROGRAM = f"import runpy; runpy.run_path({os.path.abspath(__file__)!r}, run_name='__main__')"


class Case:
    def __init__(self, body, worlds, gloo, moves):
        self.body, self.worlds, self.gloo, self.moves = body, worlds, gloo, moves
        self.name = body.__name__


def case(worlds=(2,), gloo=True, moves=True):
    """worlds: numbers of ranks. gloo: it runs there too, and its results must be the same. moves: weft must count something."""

    def mark(body):
        body.case = Case(body, worlds, gloo, moves)
        return body

    return mark


def cases_of(path):
    import importlib.util

    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return [thing.case for thing in vars(module).values() if isinstance(getattr(thing, "case", None), Case)]


# --- a rank


def moved():
    """What all groups of this process have counted so far."""
    import torch.distributed as dist
    import torch_weft

    count = 0
    for group in list(dist.distributed_c10d._world.pg_map):
        with contextlib.suppress(ValueError):  # a group of another backend
            stats = torch_weft.stats(group)
            count += stats["operations"] + stats["p2p_sends"] + stats["p2p_receives"]
    return count


def plain(value):
    """A result as it goes to the parent: tensors as type, shape and bytes, so that NaNs compare."""
    import torch

    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return ("tensor", str(value.dtype), tuple(value.shape), bytes(flat.tolist()))
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def run_rank(path, backend, rank, size, store, names, out):
    warnings.filterwarnings("ignore")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=TIMEOUT_S / 2)
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=timeout)
    with open(out, "ab", buffering=0) as told:
        for case in cases_of(path):
            if case.name not in names:
                continue
            torch.manual_seed(1 + rank)
            before = moved() if backend == "weft" else 0
            try:
                result = ("ok", plain(case.body(rank, size)))
                if backend == "weft" and case.moves and size > 1 and moved() == before:
                    result = ("bad", "nothing was moved by weft")
            except BaseException:
                result = ("bad", traceback.format_exc())
            told.write(pickle.dumps((case.name, result)))
            if result[0] == "bad":
                os._exit(1)
            dist.barrier()
    dist.destroy_process_group()


# --- the parent


def read_results(out):
    results = {}
    with contextlib.suppress(FileNotFoundError), open(out, "rb") as told:
        while True:
            try:
                name, result = pickle.load(told)
            except (EOFError, pickle.UnpicklingError):
                break
            results[name] = result
    return results


def run_ranks(path, backend, size, names):
    """Starts the ranks and waits for them. Returns a dictionary per rank, and what they printed."""
    with tempfile.TemporaryDirectory() as folder:
        ranks, outs, logs = [], [], []
        for rank in range(size):
            outs.append(os.path.join(folder, f"out{rank}"))
            logs.append(open(os.path.join(folder, f"log{rank}"), "wb"))
            arguments = [path, backend, str(rank), str(size), os.path.join(folder, "store"), ",".join(names), outs[-1]]
            ranks.append(forking.Process(PROGRAM, arguments, logs[-1]))
        until = time.monotonic() + TIMEOUT_S * (1 + len(names))
        for process in ranks:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except TimeoutError:
                pass
        late = [rank for rank, process in enumerate(ranks) if process.poll() is None]
        for process in ranks:
            process.kill()
            process.wait()
        for log in logs:
            log.close()
        said = [open(log.name, errors="replace").read() for log in logs]
        codes = [process.returncode for process in ranks]
        return [read_results(out) for out in outs], said, codes, late


def run_all(path, backend, size, names):
    """Every case's verdict: name -> (ok, results of all ranks, text)."""
    verdicts, left = {}, list(names)
    while left:
        results, said, codes, late = run_ranks(path, backend, size, left)
        done = 0
        for name in left:
            mine = [result.get(name) for result in results]
            if all(result and result[0] == "ok" for result in mine):
                verdicts[name] = (True, [result[1] for result in mine], "")
                done += 1
                continue
            texts = [f"rank {rank}: {result[1] if result else 'no result'}" for rank, result in enumerate(mine)]
            texts += [f"rank {rank} printed:\n{text[-2000:]}" for rank, text in enumerate(said) if text.strip()]
            verdicts[name] = (False, None, "\n".join([*texts, f"exit codes {codes}, late {late}"]))
            done += 1
            break
        else:
            # How gloo's ranks end is not asked: what they have computed is compared.
            if any(codes) and backend != "gloo":
                verdicts[left[-1]] = (False, None, f"the ranks ended with {codes}\n" + "\n".join(text[-2000:] for text in said))
        left = left[done:]
    return verdicts


def run_file(path):
    passed = failed = 0
    cases = cases_of(path)
    for size in sorted({size for case in cases for size in case.worlds}):
        mine = [case for case in cases if size in case.worlds]
        on_weft = run_all(path, "weft", size, [case.name for case in mine])
        on_gloo = run_all(path, "gloo", size, [case.name for case in mine if case.gloo])
        for case in mine:
            ok, results, text = on_weft[case.name]
            if ok and case.gloo:
                there, expected, why = on_gloo[case.name]
                if not there:
                    ok, text = False, f"fails on gloo:\n{why}"
                elif expected != results:
                    ok, text = False, f"WRONG: weft: {results}\ngloo: {expected}"[:4000]
            label = f"{os.path.basename(path)} {case.name}, {size} ranks"
            print(f"ok: {label}" if ok else f"FAILED: {label}\n{text}", flush=True)
            passed, failed = passed + ok, failed + (not ok)
    return passed, failed


def main(paths):
    passed = failed = 0
    with forking.server():
        for path in paths:
            p, f = run_file(path)
            passed, failed = passed + p, failed + f
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0 or passed == 0


if __name__ == "__main__":
    sys.modules["harness"] = sys.modules["__main__"]  # what cases import
    if len(sys.argv) == 8 and sys.argv[2] in ("weft", "gloo"):
        path, backend, rank, size, store, names, out = sys.argv[1:]
        run_rank(path, backend, int(rank), int(size), store, names.split(","), out)
    else:
        sys.exit(main(sys.argv[1:]))
