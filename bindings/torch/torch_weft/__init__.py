# SPDX-License-Identifier: Apache-2.0
"""weft as a backend of torch.distributed: init_process_group("weft")."""

import atexit
import contextlib
import importlib
import importlib.util
import multiprocessing
import multiprocessing.util
import os
import sys
import warnings

__all__ = ["Options", "dump", "is_available", "register", "stats", "why_not"]

NAME = "weft"
DEVICES = ["cpu", "cuda", "xpu"]

_C = None
_reason = ""
_ended_by_multiprocessing = set()


def _minor(version):
    return "_".join(version.split("+")[0].split(".")[:2])


def _binary():
    import torch

    return f"{__name__}._C_{_minor(torch.__version__)}"


def _built_for():
    from importlib import resources

    names = (entry.name for entry in resources.files(__name__).iterdir())
    found = {name.split(".")[0].removeprefix("_C_") for name in names if name.startswith("_C_") and name.endswith(".so")}
    return sorted(minor.replace("_", ".") for minor in found)


def _is_there():
    """Whether there is a binary for the torch that is installed; it is loaded when it is needed."""
    global _reason
    import torch

    if not torch.distributed.is_available():
        _reason = "this torch was built without torch.distributed"
    elif importlib.util.find_spec(_binary()) is None:
        _reason = (
            f"torch_weft was built for torch {', '.join(_built_for()) or 'no version'}, and torch {torch.__version__} "
            "is installed: install torch_weft again, with this torch (and with pip's --no-cache-dir: pip keeps wheels)"
        )
    else:
        return True
    return False


def _load():
    global _C, _reason
    if _C is not None:
        return True
    if not _is_there():
        return False
    try:
        _C = importlib.import_module(_binary())
    except ImportError as error:
        _reason = f"the binary for this torch cannot be loaded: {error}"
        return False
    _reason = ""
    return True


def is_available():
    """Whether init_process_group("weft") works here; why_not() says what is missing."""
    return _load()


def why_not():
    """Why weft cannot be used, in words; "" when it can."""
    _load()
    return _reason


@atexit.register
def _end():
    """Ends what runs, as Python is about to. Registered with `import torch`, so that what programs have registered comes before. An exception
    that nobody has handled is the program's failure: it waits for nobody. The other ranks hear of the end by the exit status."""
    if _C is not None:
        is_interactive = hasattr(sys, "ps1") or sys.flags.interactive  # they go on after one
        _C.end(getattr(sys, "last_value", None) is not None and not is_interactive)


def _end_child():
    """multiprocessing ends its children by os._exit(), with this status."""
    error = sys.exc_info()[1]
    status = 0 if error is None else 1
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else error.code is not None
    if _C is not None:
        _C.end(status != 0)
        _C.end_process(int(status))


def _create(asked, options):
    if not _load():
        raise RuntimeError(f"weft: {_reason}")
    if multiprocessing.parent_process() is not None and os.getpid() not in _ended_by_multiprocessing:
        _ended_by_multiprocessing.add(os.getpid())  # its children end without atexit
        multiprocessing.util.Finalize(None, _end_child, exitpriority=0)
    return _C.make(asked, options)


def register():
    """Makes "weft" a name of a backend. Any number of times; PyTorch calls it by the package's entry points."""
    import torch.distributed as dist

    if not _is_there():
        warnings.warn(f"backend weft is not available: {_reason}", stacklevel=2)
        return
    known = dist.Backend._plugins.get(NAME.upper())
    if known is not None and known.creator_fn is _create:
        return
    if known is not None or NAME in dist.Backend.backend_type_map:
        warnings.warn("backend weft is not registered: torch.distributed has one of this name already", stacklevel=2)
        return
    defaults = dict(dist.Backend.default_device_backend_map)
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=list(DEVICES))
    # Who asks for no backend gets the one that PyTorch would have taken.
    dist.Backend.default_device_backend_map.clear()
    dist.Backend.default_device_backend_map.update(defaults)


def _autoload():
    """The entry point: never raises, so that `import torch` never fails for weft."""
    try:
        register()
    except Exception as error:  # whatever it is, torch itself works
        with contextlib.suppress(Exception):  # warnings may be errors
            warnings.warn(f"backend weft is not available: {error}", stacklevel=2)


def _backend(group):
    import torch.distributed as dist

    if not _load():
        raise RuntimeError(f"weft: {_reason}")
    group = group or dist.group.WORLD
    if group is None:
        raise ValueError("weft: there is no process group: call init_process_group() first")
    for device in group._device_types:
        backend = group._get_backend(device)
        backend = getattr(backend, "wrapped_pg", backend)
        if backend.name() == NAME:
            return backend
    raise ValueError("weft: the group has no backend of weft's")


def stats(group=None):
    """What a group has moved by weft, and what it holds: the counters of weft_comm_get_stats(3)."""
    return _C.stats(_backend(group))


def dump(group=None):
    """What this rank waits for, in lines of text: weft_comm_dump(3)."""
    return _C.dump(_backend(group))


def Options(**settings):
    """Options for init_process_group(pg_options=) and new_group(pg_options=): weft's settings, named as in the environment, without
    WEFT_ and in small letters. They come before the environment."""
    if not _load():
        raise RuntimeError(f"weft: {_reason}")
    options = _C.Options()
    options.settings = ",".join(f"{name}={value}" for name, value in settings.items())
    return options


_autoload()
