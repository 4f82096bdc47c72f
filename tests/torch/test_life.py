"""Groups from beginning to end: launchers, timeouts, deaths, leaving, names. These start ranks of their own."""

import os
import subprocess
import sys
import tempfile
import textwrap

from harness import case

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/torch-ddp/train.py")
BEGIN = """
import datetime, os, signal, sys, time, warnings
warnings.filterwarnings("ignore")
import torch, torch.distributed as dist
torch.set_num_threads(1)
rank, size, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def begin(backend="weft", seconds=30, **more):
    dist.init_process_group(backend, init_method="file://" + store, rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=seconds), **more)
"""


def ranks(size, program, timeout=120, **environment):
    """Runs the program on size ranks; returns each one's status and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        text = BEGIN + textwrap.dedent(program)
        started = [
            subprocess.Popen(
                [sys.executable, "-c", text, str(rank), str(size), store],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **environment},
            )
            for rank in range(size)
        ]
        try:
            said = [process.communicate(timeout=timeout)[0] for process in started]
        finally:
            for process in started:
                process.kill()
                process.wait()
        return [(process.returncode, text) for process, text in zip(started, said)]


def all_fine(results):
    for status, text in results:
        assert status == 0, text
    return [text for _, text in results]


def alone(body):
    return case(worlds=(1,), gloo=False, moves=False)(body)


@alone
def names_of_the_backend(rank, size):
    import torch
    import torch.distributed as dist
    import torch_weft

    assert torch_weft.is_available() and torch_weft.why_not() == ""
    assert dist.is_backend_available("weft") and dist.get_backend() == "weft"
    assert dist.Backend.default_device_backend_map["cpu"] == "gloo"
    torch_weft.register()
    torch_weft.register()
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "weft"
    options = torch_weft.Options(transports="shm")
    assert options.transports == "shm"
    try:
        torch_weft.Options(colour="red")
        raise AssertionError("an unknown option was taken")
    except TypeError as error:
        assert "colour" in str(error)


def python(program, *options, **environment):
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@alone
def importing_torch_is_enough(rank, size):
    """By the entry point of the installed package."""
    python(
        """
        import torch.distributed as dist
        assert dist.is_backend_available("weft")
        """
    )


@alone
def another_torch_is_named(rank, size):
    """Also where warnings are errors, `import torch` and importing the package go on."""
    python(
        """
        import torch
        ours = ".".join(torch.__version__.split(".")[:2])
        torch.__version__ = "2.99.1"
        import torch_weft
        assert not torch_weft.is_available()
        reason = torch_weft.why_not()
        assert ours in reason and "2.99.1" in reason, reason
        assert not torch.distributed.is_backend_available("weft")
        """,
        "-W",
        "error::UserWarning:torch_weft",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


@alone
def torchrun(rank, size):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", "--master-port", "0", "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", "localhost:0", EXAMPLE, "--steps", "20", "--batch", "16"]
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step 20: loss" in done.stdout and "weft: " in done.stdout, done.stdout


@alone
def a_killed_rank_is_named(rank, size):
    program = """
        begin()
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(torch.ones(1000))
        except dist.DistBackendError as error:
            assert "rank 1" in str(error), error
            os._exit(0)
        os._exit(3)
    """
    (first, said), (killed, _), (last, more) = ranks(3, program)
    assert killed == -9 and first == 0 and last == 0, said + more


SHRINK = """
    begin()
    dist.barrier()
    part = dist.new_group([1, 2])  # goes with the default group
    here = dist.distributed_c10d._get_default_store()
    here.add("here", 1)
    while here.add("here", 0) < 3:  # so that nobody is in a call that an abort would end
        time.sleep(0.01)
    if rank == 1 and how != "healthy":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1:
        dist.destroy_process_group()
        os._exit(0)
    if how == "dead":
        try:
            dist.all_reduce(torch.ones(1000))
        except dist.DistBackendError as error:
            assert "rank 1" in str(error), error
        else:
            os._exit(3)
    if how == "noticed by one" and rank == 0:
        try:
            dist.recv(torch.ones(1), 1)
        except dist.DistBackendError as error:
            assert "rank 1" in str(error), error
        else:
            os._exit(3)
    dist.shrink_group([1], shrink_flags=dist.distributed_c10d.SHRINK_ABORT if how == "aborted" else 0)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank // 2, 2, "weft")
    tensor = torch.tensor([rank + 1])
    dist.all_reduce(tensor)
    assert tensor.item() == 4
    dist.destroy_process_group()
"""


def the_others_go_on(how):
    (first, said), (left, _), (last, more) = ranks(3, f'how = "{how}"\n' + textwrap.dedent(SHRINK))
    assert left == (0 if how == "healthy" else -9) and first == 0 and last == 0, said + more


@alone
def the_others_go_on_without_the_dead(rank, size):
    the_others_go_on("dead")


@alone
def the_others_go_on_when_one_has_noticed(rank, size):
    the_others_go_on("noticed by one")


@alone
def the_others_go_on_before_a_death_is_noticed(rank, size):
    the_others_go_on("aborted")


@alone
def the_others_go_on_without_one_that_leaves(rank, size):
    the_others_go_on("healthy")


@alone
def a_message_that_does_not_come_harms_no_group(rank, size):
    """Only its receiver has heard of that: the group goes on, and can be shrunk while it is healthy."""
    program = """
        begin(seconds=4)
        store = dist.distributed_c10d._get_default_store()
        if rank == 0:
            try:
                dist.recv(torch.zeros(1), 1)
            except dist.DistBackendError as error:
                assert "Timed out" in str(error) and "rank 1" in str(error), error
            else:
                os._exit(3)
            store.set("late", "")
        store.wait(["late"], datetime.timedelta(seconds=60))
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == 3
        if rank != 1:
            dist.shrink_group([1])
            dist.all_reduce(tensor)
            assert tensor.item() == 6
        dist.destroy_process_group()
    """
    all_fine(ranks(3, program))


@alone
def whoever_is_missed_when_others_go_on_is_named(rank, size):
    program = """
        begin(seconds=10)
        dist.barrier()
        if rank:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.shrink_group([1], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
        except dist.DistBackendError as error:
            assert "of 2 ranks that should stay 1 have come, without rank 2" in str(error), error
            os._exit(0)
        os._exit(3)
    """
    (first, said), *_ = ranks(3, program)
    assert first == 0, said


@alone
def a_rank_that_does_not_come_is_named(rank, size):
    program = """
        begin(seconds=4)
        if rank == 1:
            time.sleep(8)
            os._exit(0)
        try:
            dist.all_reduce(torch.ones(1000))
        except dist.DistBackendError as error:
            assert " Timed out (deadline passed): " in str(error) and "rank 1" in str(error), error
            os._exit(0)
        os._exit(3)
    """
    all_fine(ranks(2, program))


@alone
def a_wait_with_a_timeout_goes_on(rank, size):
    program = """
        begin()
        tensor = torch.zeros(3)
        if rank == 0:
            work = dist.irecv(tensor, 1)
            try:
                work.wait(datetime.timedelta(milliseconds=50))
                os._exit(3)
            except dist.DistBackendError as error:
                assert "50 ms" in str(error), error
            dist.send(torch.ones(1), 1)
            work.wait()
            assert tensor.tolist() == [7.0] * 3
        else:
            dist.recv(torch.zeros(1), 0)
            dist.send(torch.full((3,), 7.0), 0)
        dist.destroy_process_group()
    """
    all_fine(ranks(2, program))


@alone
def sizes_that_differ_are_named(rank, size):
    program = """
        begin()
        try:
            if rank == 0:
                dist.send(torch.ones(3), 1)
            else:
                dist.recv(torch.ones(5), 0)
                os._exit(3)
        except RuntimeError as error:
            assert "12 bytes" in str(error) and "20" in str(error), error
        try:
            dist.all_reduce(torch.ones(3 + rank))
            os._exit(4)
        except dist.DistBackendError as error:
            assert "disagree" in str(error), error
        os._exit(0)
    """
    all_fine(ranks(2, program))


@alone
def a_hundred_lives(rank, size):
    program = """
        def threads():
            return len(os.listdir("/proc/self/task"))
        def descriptors():
            return len(os.listdir("/proc/self/fd"))
        seen = []
        for life in range(100):
            dist.init_process_group("weft", init_method=f"file://{store}{life}", rank=rank, world_size=size)
            tensor = torch.ones(10)
            dist.all_reduce(tensor, async_op=True).get_future().wait()
            assert tensor[0].item() == size
            dist.destroy_process_group()
            seen.append((threads(), descriptors()))
        assert seen[-1] == seen[5], seen
    """
    all_fine(ranks(2, program, timeout=100))


@alone
def the_end_without_destroy(rank, size):
    program = """
        begin()
        dist.all_reduce(torch.ones(10), async_op=True)
        dist.all_reduce(torch.ones(10))
        if rank == 0:
            time.sleep(0.5)
    """
    all_fine(ranks(2, program))


@alone
def the_end_with_callbacks_pending(rank, size):
    """Of a message that does not come, and of a collective that may have ended."""
    program = """
        begin()
        told = dist.irecv(torch.ones(1), 1 - rank, tag=5).get_future().add_done_callback(lambda future: None)
        work = dist.all_reduce(torch.ones(100000), async_op=True)
        work.get_future().add_done_callback(lambda future: future.value())
        dist.all_reduce(torch.ones(10), async_op=True)
    """
    all_fine(ranks(2, program))


@alone
def who_leaves_early_waits_for_nobody(rank, size):
    """And what it has sent arrives."""
    program = """
        begin()
        dist.barrier()
        if rank == 0:
            dist.send(torch.tensor([7]), 1)
            dist.destroy_process_group()
            open(store + ".left", "w").close()
        else:
            until = time.monotonic() + 20
            while not os.path.exists(store + ".left"):
                assert time.monotonic() < until, "rank 0 has not left"
                time.sleep(0.01)
            time.sleep(2)  # rank 0 is at its end
            tensor = torch.tensor([0])
            dist.recv(tensor, 0)
            assert tensor.item() == 7
            dist.destroy_process_group()
    """
    all_fine(ranks(2, program))


@alone
def abort_ends_what_runs(rank, size):
    program = """
        begin()
        dist.barrier()
        if rank == 1:
            time.sleep(1)
            dist.group.WORLD.abort()
        else:
            try:
                dist.all_reduce(torch.ones(10))
                os._exit(3)
            except dist.DistBackendError as error:
                assert "abort" in str(error), error
        os._exit(0)
    """
    all_fine(ranks(2, program))


@alone
def with_checks_of_all_calls(rank, size):
    program = """
        begin()
        tensor = torch.ones(5)
        dist.all_reduce(tensor)
        assert tensor[0].item() == size
        import torch_weft
        assert torch_weft.stats()["operations"] > 0
        parts = [torch.zeros(2) for _ in range(size)]
        dist.all_gather(parts, torch.full((2,), float(rank)))
        assert parts[1][0].item() == 1
        dist.barrier()
        dist.destroy_process_group()
    """
    all_fine(ranks(2, program, TORCH_DISTRIBUTED_DEBUG="DETAIL"))


@alone
def beside_gloo_in_one_group(rank, size):
    program = """
        begin("cpu:gloo,cuda:weft")
        tensor = torch.ones(5)
        dist.all_reduce(tensor)
        assert tensor[0].item() == size
        assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "gloo"
        assert dist.group.WORLD._get_backend(torch.device("cuda")).name() == "weft"
        dist.destroy_process_group()
    """
    all_fine(ranks(2, program))


@alone
def timeouts_change(rank, size):
    program = """
        begin()
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        backend.set_timeout(datetime.timedelta(milliseconds=500))
        tensor = torch.ones(5)
        if rank == 0:
            try:
                dist.recv(tensor, 1)
                os._exit(3)
            except dist.DistBackendError as error:
                assert "500 ms" in str(error), error
            dist.send(tensor, 1)
        else:
            backend.set_timeout(datetime.timedelta(seconds=30))
            dist.recv(tensor, 0)
        backend.set_timeout(datetime.timedelta(seconds=30))
        dist.all_reduce(tensor)
        dist.destroy_process_group()
    """
    all_fine(ranks(2, program))


@alone
def splits(rank, size):
    program = """
        begin()
        members = [0, 2]
        part = dist.group.WORLD.split_group(members, group_name="some") if rank in members else None
        if part is not None:
            tensor = torch.full((3,), rank + 1.0)
            part.allreduce([tensor]).wait()
            assert tensor[0].item() == 4
            assert part.size() == 2 and part.rank() == members.index(rank)
        dist.barrier()
        dist.destroy_process_group()
    """
    all_fine(ranks(3, program))


@alone
def one_store_for_several_lives(rank, size):
    """As under torchrun, whose store stays: keys of the life before must not be taken for this one's."""
    program = """
        held = dist.FileStore(store, size)
        for life in range(3):
            if rank == 0:
                time.sleep(0.3)  # the others look first
            dist.init_process_group("weft", store=held, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=20))
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            assert tensor[0].item() == size
            dist.destroy_process_group()
    """
    all_fine(ranks(3, program))


@alone
def options_are_copied(rank, size):
    import copy

    import torch
    import torch.distributed as dist

    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    options = copy.deepcopy(backend.options)
    options.transports = "shm"
    assert backend.options.transports == "" and options.backend == "weft"


@alone
def memory_that_peers_read(rank, size):
    program = """
        begin()
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        assert backend.supports_tensor_alloc(torch.device("cpu"))
        tensor = backend.allocate_tensor(1 << 20, dtype=torch.float32, device=torch.device("cpu"))
        tensor.fill_(rank + 1.0)
        dist.all_reduce(tensor)
        assert tensor[-1].item() == 3
        import torch_weft
        assert torch_weft.stats()["bytes_staged"] == 0
        dist.destroy_process_group()
        tensor += 1  # outlives the group
    """
    all_fine(ranks(2, program))


@alone
def leaving_waits_for_a_monitored_barrier(rank, size):
    program = """
        import threading
        begin()
        dist.barrier()
        if rank == 0:
            told = []
            def barrier(group):
                try:
                    group.monitored_barrier(datetime.timedelta(seconds=3))
                except dist.DistBackendError as error:
                    told.append(str(error))
            thread = threading.Thread(target=barrier, args=(dist.group.WORLD,))
            thread.start()
            time.sleep(1)
            dist.destroy_process_group()
            thread.join()
            assert "Rank 1 failed to pass monitoredBarrier" in told[0], told
        else:
            dist.destroy_process_group()
    """
    results = ranks(2, program)
    all_fine(results)
    assert "not ended" not in results[0][1], results[0][1]


@alone
def missing_ranks_of_a_monitored_barrier(rank, size):
    program = """
        begin()
        group = dist.group.WORLD
        group.monitored_barrier(datetime.timedelta(seconds=20), True)
        if rank == 0:
            try:
                group.monitored_barrier(datetime.timedelta(milliseconds=4000), True)
                os._exit(3)
            except dist.DistBackendError as error:
                assert "Ranks 1, 2 failed to pass monitoredBarrier" in str(error), error
            try:
                group.monitored_barrier(datetime.timedelta(0))  # at once
                os._exit(3)
            except dist.DistBackendError as error:
                assert "Rank 0 timed out in monitoredBarrier after 0 ms" in str(error), error
        elif rank == 3:
            try:
                group.monitored_barrier(datetime.timedelta(milliseconds=8000), True)
                os._exit(3)
            except dist.DistBackendError as error:
                assert "Rank 3 successfully reached monitoredBarrier" in str(error) and "rank 0" in str(error), error
        dist.barrier()
        dist.destroy_process_group()
    """
    all_fine(ranks(4, program))
