# SPDX-License-Identifier: Apache-2.0
"""How ranks leave: on purpose, late or early, at the end of a program, by dying; and how the others go on."""

import textwrap

from programs import all_fine, alone, of_ranks, ranks


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


@alone
def the_others_go_on(rank, size):
    """Without the dead: known to all, to one, to none; and without one that leaves."""
    for how in ("dead", "noticed by one", "aborted", "healthy"):
        (first, said), (left, _), (last, more) = ranks(3, f'how = "{how}"\n' + textwrap.dedent(SHRINK))
        assert left == (0 if how == "healthy" else -9) and first == 0 and last == 0, f"{how}: {said}{more}"


@of_ranks(3)
def a_message_that_does_not_come_harms_no_group():
    """Only its receiver has heard of that: the group goes on, and can be shrunk while it is healthy."""
    return """
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


@alone
def whoever_is_missed_when_others_go_on_is_named(rank, size):
    program = """
        begin(seconds=10)
        dist.barrier()
        here = dist.distributed_c10d._get_default_store()
        here.add("here", 1)
        while here.add("here", 0) < 3:  # nobody is in the barrier any more
            time.sleep(0.01)
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
def the_end_without_destroy(rank, size):
    program = """
        begin()
        dist.all_reduce(torch.ones(10), async_op=True)
        dist.all_reduce(torch.ones(10))
        if rank == 0:
            time.sleep(0.5)
    """
    all_fine(ranks(2, program))


@of_ranks(2)
def the_end_with_callbacks_pending():
    """Of a message that does not come, and of a collective that may have ended."""
    return """
        begin()
        told = dist.irecv(torch.ones(1), 1 - rank, tag=5).get_future().add_done_callback(lambda future: None)
        work = dist.all_reduce(torch.ones(100000), async_op=True)
        work.get_future().add_done_callback(lambda future: future.value())
        dist.all_reduce(torch.ones(10), async_op=True)
    """


@of_ranks(2)
def who_leaves_early_waits_for_nobody():
    """And what it has sent arrives."""
    return """
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


@of_ranks(2)
def children_of_multiprocessing_leave_like_others():
    """They end without atexit."""
    return """
        import multiprocessing
        def child():
            begin()
            dist.barrier()
            if rank == 0:
                dist.send(torch.tensor([7]), 1)
            else:
                time.sleep(3)  # rank 0 is at its end
                tensor = torch.tensor([0])
                dist.recv(tensor, 0)
                assert tensor.item() == 7
            dist.destroy_process_group()
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        sys.exit(process.exitcode)
    """


@alone
def programs_exit_handlers_come_first(rank, size):
    program = """
        import atexit
        atexit.register(lambda: print("all", "came") if dist.barrier() is None else None)
        begin()
    """
    results = ranks(2, program)
    all_fine(results)
    assert all("all came" in text for _, text in results), results


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
def leaving_lets_a_monitored_barrier_end(rank, size):
    program = """
        import threading
        begin()
        dist.barrier()
        group, told = dist.group.WORLD, []
        def barrier():
            group.monitored_barrier(datetime.timedelta(seconds=20))
            told.append("passed")
        thread = threading.Thread(target=barrier)
        if rank == 1:
            time.sleep(2)
        thread.start()
        if rank == 0:
            time.sleep(0.5)
            dist.destroy_process_group()
        thread.join()
        assert told == ["passed"]
        if rank == 1:
            dist.destroy_process_group()
    """
    all_fine(ranks(2, program))


# Woken by the end of the program, each keeps Python busy: some are not back there when it ends.
DAEMONS = """
    import threading
    begin()
    dist.barrier()
    begun = threading.Semaphore(0)
    def hang(tag):
        work = dist.irecv(torch.ones(1), 1 - rank, tag=tag)
        future = work.get_future() if how == "future" else work
        begun.release()
        try:
            future.wait()
        except Exception:
            pass
        while True:
            pass
    for tag in range(8):
        threading.Thread(target=hang, args=(tag,), daemon=True).start()
    for tag in range(8):
        begun.acquire()
    dist.barrier()
"""


@alone
def the_end_with_threads_that_wait(rank, size):
    for how in ("work", "future"):
        all_fine(ranks(2, f'how = "{how}"\n' + textwrap.dedent(DAEMONS)))


@alone
def a_thread_that_comes_back_when_python_has_ended_stays(rank, size):
    """It wakes in wait() while what Python destroys at its end runs, and harms nobody."""
    program = """
        import atexit, platform, threading, torch_weft
        begin()
        dist.barrier()
        if rank == 1:
            dist.recv(torch.zeros(1), 0, tag=1)  # rank 0's Python has ended
            dist.send(torch.ones(1), 0, tag=2)
            dist.destroy_process_group()
            sys.exit()
        atexit.unregister(torch_weft._end)  # which would end the wait earlier
        begun = threading.Event()
        def hang():
            work = dist.irecv(torch.zeros(1), 1, tag=2)
            begun.set()
            work.wait()
        thread = threading.Thread(target=hang, daemon=True)
        thread.start()
        begun.wait()
        class Last:
            # Names of modules may be gone then.
            group, message, sleep, now = dist.group.WORLD, torch.ones(1), time.sleep, time.monotonic
            open, read, write, leave = os.open, os.read, os.write, os._exit
            task = f"/proc/self/task/{thread.native_id}/syscall"
            pause = b"34 " if platform.machine() == "x86_64" else b"73 "  # of Linux: ppoll() where it has no pause()
            def __del__(self):
                self.group.send([self.message], 1, 1).wait()
                until = self.now() + 30
                while not self.read(self.open(self.task, 0), 100).startswith(self.pause):
                    if self.now() > until:
                        self.leave(3)
                    self.sleep(0.01)
                self.write(1, b"it stays")
        sys.last = Last()  # the program's own names stay where a thread uses them
    """
    results = ranks(2, program)
    assert "it stays" in all_fine(results)[0], results


ENDS = """
    begin()
    dist.all_reduce(torch.ones(1))
    here = dist.distributed_c10d._get_default_store()
    here.set(f"pid{rank}", str(os.getpid()))
    def await_end(rank):
        import select
        with contextlib.suppress(ProcessLookupError):
            select.select([os.pidfd_open(int(here.get(f"pid{rank}")))], [], [], 60)
    def fails(call, *words):
        try:
            call()
        except dist.DistBackendError as error:
            assert all(word in str(error) for word in words), error
        else:
            os._exit(3)
"""


@alone
def an_exception_is_the_failure_of_who_raised_it(rank, size):
    """And so is an exit with another status than 0."""
    for end, status in (("raise ValueError('of the program')", 1), ("sys.exit(7)", 7)):
        program = f"""
            import contextlib
            {textwrap.indent(textwrap.dedent(ENDS), " " * 12).strip()}
            if rank == 1:
                {end}
            fails(lambda: dist.all_reduce(torch.ones(1)), "rank 1 on host", "its program has ended with exit status {status}")
            os._exit(0)
        """
        (first, said), (second, more) = ranks(2, program)
        assert (first, second) == (0, status), f"{end}: {said}{more}"


@of_ranks(3)
def who_ends_well_has_left():
    """Without destroy_process_group(): the others talk to each other, and who needs it hears of it by name."""
    return f"""
        import contextlib
        {textwrap.indent(textwrap.dedent(ENDS), " " * 8).strip()}
        if rank == 0:
            sys.exit(0)
        await_end(0)
        if rank == 1:
            fails(lambda: dist.recv(torch.zeros(1), 0), "rank 0 on host", "has left: its program has ended")
            dist.send(torch.ones(3), 2)
        else:
            tensor = torch.zeros(3)
            dist.recv(tensor, 1)
            assert tensor.tolist() == [1, 1, 1]
        dist.destroy_process_group()
    """


@of_ranks(2)
def children_of_multiprocessing_say_how_they_end():
    return """
        import torch.multiprocessing

        def body(rank, store):
            dist.init_process_group("weft", init_method="file://" + store, rank=rank, world_size=2)
            dist.all_reduce(torch.ones(1))
            if rank == 1:
                raise ValueError("of the program")
            try:
                dist.all_reduce(torch.ones(1))
            except dist.DistBackendError as error:
                assert "its program has ended with exit status 1" in str(error), error
                os._exit(0)
            os._exit(3)

        process = torch.multiprocessing.get_context("fork").Process(target=body, args=(rank, store))
        process.start()
        process.join()
        assert process.exitcode == rank, process.exitcode
    """
