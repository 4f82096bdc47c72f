# SPDX-License-Identifier: Apache-2.0
"""How ranks leave: on purpose, late or early, at the end of a program, by dying; and how the others go on."""

import textwrap

from programs import all_fine, alone, ranks


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
def children_of_multiprocessing_leave_like_others(rank, size):
    """They end without atexit."""
    program = """
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
    all_fine(ranks(2, program))


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
