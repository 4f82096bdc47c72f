# SPDX-License-Identifier: Apache-2.0
"""Groups from beginning to end: launchers, timeouts, deaths, names. These start ranks of their own."""

import os
import subprocess
import sys
import textwrap

from programs import all_fine, alone, of_ranks, python, ranks

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/torch-ddp/train.py")


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
    assert torch_weft.Options(transport="shm,verbs", algo="ring").settings == "transport=shm,verbs,algo=ring"


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
        try:
            dist.barrier()  # rank 1 may be dead before its end has been seen by all
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(torch.ones(1000))
        except dist.DistBackendError as error:
            assert "rank 1" in str(error), error
            os._exit(0)
        os._exit(3)
    """
    (first, said), (killed, _), (last, more) = ranks(3, program)
    assert killed == -9 and first == 0 and last == 0, said + more


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


@of_ranks(2)
def a_wait_with_a_timeout_goes_on():
    return """
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


@of_ranks(2)
def sizes_that_differ_are_named():
    return """
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


@of_ranks(3, timeout=100)
def splits_that_differ_are_named_by_both():
    """Rank 0 gets what it expects, and calls when the others have sent."""
    return """
        begin()
        dist.barrier()
        sent, expected = [1, 3 if rank == 0 else 1, 1], [2 if rank == 1 else 1, 1, 1]
        while rank == 0 and not all(os.path.exists(f"{store}.{other}") for other in (1, 2)):
            time.sleep(0.01)
        try:
            input, output = torch.ones(sum(sent)), torch.zeros(sum(expected))
            work = dist.all_to_all_single(output, input, expected, sent, async_op=True)
            open(f"{store}.{rank}", "w").close()
            work.wait()
            assert rank == 2
            dist.barrier()
            os._exit(4)
        except dist.DistBackendError as error:
            assert "rank 0 sends 3 elements to rank 1, which expects 2" in str(error), error
        os._exit(0)
    """


@of_ranks(2, timeout=100)
def a_hundred_lives():
    return """
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


@of_ranks(2)
def abort_ends_what_runs():
    return """
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


@of_ranks(2, TORCH_DISTRIBUTED_DEBUG="DETAIL")
def with_checks_of_all_calls():
    return """
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


@of_ranks(2)
def beside_gloo_in_one_group():
    return """
        begin("cpu:gloo,cuda:weft")
        tensor = torch.ones(5)
        dist.all_reduce(tensor)
        assert tensor[0].item() == size
        assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "gloo"
        assert dist.group.WORLD._get_backend(torch.device("cuda")).name() == "weft"
        dist.destroy_process_group()
    """


@of_ranks(2)
def timeouts_change():
    return """
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


@of_ranks(2)
def a_late_send_ends_the_group():
    return """
        begin()
        tensor = torch.ones(1 << 22)
        if rank == 0:
            dist.group.WORLD._get_backend(torch.device("cpu")).set_timeout(datetime.timedelta(milliseconds=300))
            for call in (lambda: dist.send(tensor, 1), lambda: dist.all_reduce(torch.ones(1))):
                try:
                    call()
                    os._exit(3)
                except dist.DistBackendError as error:
                    assert "rank 0 gave up after 300 ms: no receive for the send" in str(error), error
        else:
            try:
                dist.all_reduce(torch.ones(1))
                os._exit(3)
            except dist.DistBackendError as error:
                words = "gave up after 300 ms: no receive for the send"
                assert "rank 0 on host" in str(error) and words in str(error), error
                assert str(error).count("gave up") == 1, error
        os._exit(0)
    """


@of_ranks(3)
def splits():
    return """
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


@of_ranks(3)
def one_store_for_several_lives():
    """As under torchrun, whose store stays: keys of the life before must not be taken for this one's."""
    return """
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


@alone
def options_are_copied(rank, size):
    import copy

    import torch
    import torch.distributed as dist

    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    options = copy.deepcopy(backend.options)
    options.settings = "transport=shm"
    assert backend.options.settings == "" and options.backend == "weft"


@of_ranks(2, WEFT_EAGER_SHM="nonsense")
def settings_of_a_group():
    """They come before the environment's, and a name that weft does not know is refused with it."""
    return """
        import torch_weft
        try:
            begin(pg_options=torch_weft.Options(colour="red"))
            os._exit(3)
        except dist.DistBackendError as error:
            assert "colour" in str(error), error
        begin(pg_options=torch_weft.Options(eager_shm=64))
        tensor = torch.ones(100)
        dist.all_reduce(tensor)
        assert tensor[0].item() == size
        dist.destroy_process_group()
    """


@of_ranks(2)
def memory_that_peers_read():
    return """
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


@of_ranks(4)
def missing_ranks_of_a_monitored_barrier():
    return """
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


PRESS = """
    import contextlib, threading

    class Pressed(Exception):
        pass

    def press(number):
        def raises(*_):
            raise Pressed
        signal.signal(signal.SIGTERM, raises)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts all of this with & has it ignored
        threading.Timer(0.3, os.kill, (os.getpid(), number)).start()

    def is_seen(call, number=signal.SIGINT):
        press(number)
        try:
            call()
        except (KeyboardInterrupt if number == signal.SIGINT else Pressed):
            return
        os._exit(3)
"""


@of_ranks(2)
def signals_are_seen_in_calls_that_wait():
    """Long before the deadline; and what has begun goes on, so that the group can be used."""
    return f"""
        {textwrap.indent(textwrap.dedent(PRESS), " " * 8).strip()}
        begin(seconds=60)
        here = dist.distributed_c10d._get_default_store()
        number, tensor = torch.ones(1), torch.zeros(2)
        if rank == 0:
            is_seen(dist.barrier)
            is_seen(lambda: dist.all_reduce(number))
            is_seen(lambda: dist.all_reduce(number, async_op=True).wait(), signal.SIGTERM)
            is_seen(lambda: dist.recv(tensor, 1))
            here.set("seen", "")
        else:
            here.wait(["seen"], datetime.timedelta(seconds=60))
            dist.barrier()
            dist.all_reduce(number)
            dist.all_reduce(number)
            dist.send(torch.ones(2), 0)
        last = torch.ones(1)
        dist.all_reduce(last)
        assert last.item() == 2
        dist.destroy_process_group()
    """


@of_ranks(2)
def signals_are_seen_while_ranks_meet():
    return f"""
        {textwrap.indent(textwrap.dedent(PRESS), " " * 8).strip()}
        if rank == 0:
            is_seen(lambda: begin(seconds=600))  # longer than these ranks may take
            os._exit(0)
        else:
            here = dist.FileStore(store, 2)
            time.sleep(0.1)
    """


@of_ranks(2)
def who_destroys_its_group_early_is_named_in_pythons_words():
    return """
        begin()
        dist.barrier()
        try:
            if rank == 1:
                dist.destroy_process_group()
            else:
                dist.all_reduce(torch.ones(1000))
        except dist.DistBackendError as error:
            assert "rank 1" in str(error) and "calls destroy_process_group" in str(error), error
            os._exit(0)
        os._exit(0 if rank == 1 else 3)
    """


@alone
def waiting_for_rank_0_fills_no_log(rank, size):
    """A wait of a store that ends without the key makes PyTorch log a warning."""
    program = """
        begin()
        here = dist.distributed_c10d._get_default_store()
        if rank == 0:
            stores = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
            here.set("port", str(stores.port))
        else:
            stores = dist.TCPStore("127.0.0.1", int(here.get("port")), 2, False)
        dist.barrier()
        dist.destroy_process_group()
        if rank == 0:
            stores.get("comes")
            time.sleep(1)  # which rank 1 waits for
        else:
            stores.set("comes", "")
        dist.init_process_group("weft", store=stores, rank=rank, world_size=2)
        dist.barrier()
        dist.destroy_process_group()
        if rank == 1:
            stores.set("gone", "")
        else:
            stores.get("gone")
        os._exit(0)
    """
    for code, said in ranks(2, program):
        assert code == 0 and "[c10d]" not in said, said


@of_ranks(2)
def the_others_hear_why_a_group_cannot_be_made():
    """At once, by the store: rank 1 would wait for the timeout otherwise."""
    return """
        import resource
        begin(seconds=60)
        dist.barrier()
        here = dist.distributed_c10d._get_default_store()
        if rank == 0:
            used = max(int(name) for name in os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        try:
            dist.new_group(timeout=datetime.timedelta(seconds=600))  # longer than these ranks may take
        except dist.DistBackendError as error:
            assert "Timed out" not in str(error), error
            assert rank == 0 or "rank 0: " in str(error), error
            os._exit(0)
        os._exit(3)
    """
