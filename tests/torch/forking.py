# SPDX-License-Identifier: Apache-2.0
"""Processes forked from one that has loaded torch: loading it takes seconds of a processor, and the cases start many ranks.

    with forking.server():
        process = forking.Process(program, arguments, output)

A process runs a program, which is text, as `python -c` does: in a session of its own, with the environment of who asked, and with
the interpreter's ordinary end. Processes that a case starts ask the same server, which they find by FORKING_SERVER. Each has a
connection to the server, over which its number comes back and then its status.
"""

import contextlib
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import tempfile

ANSWER_S = 60  # the server forks at once


class Process:
    """What subprocess.Popen has of a process: pid, returncode, poll(), wait() and kill()."""

    def __init__(self, program, arguments, output):
        self.returncode = None
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(ANSWER_S)
        self.connection.connect(os.environ["FORKING_SERVER"])
        request = pickle.dumps((program, arguments, dict(os.environ), os.getcwd()))
        socket.send_fds(self.connection, [request], [output.fileno()])
        self.pid = int(self.connection.recv(64))

    def poll(self):
        with contextlib.suppress(TimeoutError, BlockingIOError):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            self.connection.settimeout(timeout)
            self.returncode = int(self.connection.recv(64))
            self.connection.close()
        return self.returncode

    def kill(self):
        """With its session. The server ends what one that has ended leaves behind, as nobody else knows that the number is still its."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


@contextlib.contextmanager
def server():
    """Runs until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FORKING_SERVER"] = os.path.join(folder, "socket")
        command = [sys.executable, os.path.abspath(__file__), os.environ["FORKING_SERVER"]]
        alone = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}  # a fork takes one thread
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **alone})
        if process.stdout.read(1) != b"+":
            raise RuntimeError(f"the process that forks ended with {process.wait()}")
        try:
            yield
        finally:
            process.stdin.close()
            process.wait()


# --- the server


def become(request, output, to_close):
    """The forked process: all but its program. Returns what is to run."""
    program, arguments, environment, folder = pickle.loads(request)
    for each in to_close:
        each.close()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[:] = ["-c", *arguments]
    return program


def serve(path):
    """Returns a program to run, in a process of its own, or None when the server's time is over."""
    import torch  # with the package of weft, by its entry point
    import torch.distributed

    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads before a fork"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    selector = selectors.DefaultSelector()
    for each in (listener, wake, sys.stdin):
        selector.register(each, selectors.EVENT_READ)
    children = {}
    print("+", end="", flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                return None
            if key.fileobj is listener:
                connection, _ = listener.accept()
                request, fds, _, _ = socket.recv_fds(connection, 1 << 20, 1)
                if not fds:  # who asked has ended
                    connection.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    to_close = [listener, wake, waker, connection, selector, *children.values()]
                    return become(request, fds[0], to_close)
                os.close(fds[0])
                connection.send(str(pid).encode())
                children[pid] = connection
                continue
            wake.recv(64)
            with contextlib.suppress(ChildProcessError):
                while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(ended.si_pid, signal.SIGKILL)
                    _, status = os.waitpid(ended.si_pid, 0)
                    connection = children.pop(ended.si_pid)
                    with contextlib.suppress(OSError):  # nobody may want to hear of it
                        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
                    connection.close()


if __name__ == "__main__":
    what = serve(sys.argv[1])
    if what is not None:
        exec(compile(what, "<program>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
