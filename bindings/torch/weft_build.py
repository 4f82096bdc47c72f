# SPDX-License-Identifier: Apache-2.0
"""What pip and other front ends call to make torch_weft's sdist and its wheel (PEP 517). setuptools does the packing.

Everything happens in a stage: a temporary folder with copies of what the package is made of, the same from a checkout as from an
sdist. So nothing is written beside the sources, and what an earlier build may have left there gets into no package.

    stage/          pyproject.toml setup.py weft_build.py LICENSE torch_weft/*.py
    stage/weft/     libweft's sources and Makefile, and bindings/torch/csrc
"""

import contextlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from setuptools import build_meta

HERE = pathlib.Path(__file__).resolve().parent
# Python has just written this file in compiled form beside it.
with contextlib.suppress(OSError):
    compiled = pathlib.Path(importlib.util.cache_from_source(__file__))
    compiled.unlink()
    compiled.parent.rmdir()
# An sdist has libweft's sources beside this file, a checkout has this file among them.
WEFT = HERE / "weft" if (HERE / "weft").is_dir() else HERE.parent.parent
FOLDERS = ["algos", "base", "bindings/torch/csrc", "comm", "devmem", "include", "mk", "topo", "transport"]
SUFFIXES = {".c", ".cl", ".cpp", ".cu", ".h", ".hpp", ".map", ".mk"}
NEEDED = (2, 13)

torch = None  # the folder and the version of the torch that the wheel is for; an sdist needs none


def weft_version():
    text = (WEFT / "include/weft/weft.h").read_text()
    return ".".join(re.search(rf"define WEFT_VERSION_{part} +(\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


# --- the hooks


def get_requires_for_build_sdist(config_settings=None):
    return []


def get_requires_for_build_wheel(config_settings=None):
    wanted = asked_version(config_settings)
    return [f"torch=={wanted}"] if wanted else []


def build_sdist(sdist_directory, config_settings=None):
    target = os.path.abspath(sdist_directory)
    with staged():
        return build_meta.build_sdist(target, passed_on(config_settings))


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    target = os.path.abspath(metadata_directory)
    with staged(config_settings, for_torch=True):
        return build_meta.prepare_metadata_for_build_wheel(target, passed_on(config_settings))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    target = os.path.abspath(wheel_directory)
    metadata = metadata_directory and os.path.abspath(metadata_directory)
    with staged(config_settings, for_torch=True):
        return build_meta.build_wheel(target, passed_on(config_settings), metadata)


def asked_version(config_settings):
    return (config_settings or {}).get("torch")


def passed_on(config_settings):
    return {name: value for name, value in (config_settings or {}).items() if name != "torch"}


# --- the stage


@contextlib.contextmanager
def staged(config_settings=None, for_torch=False):
    """The work's folder is a stage inside; its end is the end of the stage."""
    global torch
    torch = find_torch(asked_version(config_settings)) if for_torch else None
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="torch_weft-") as folder:
        stage = pathlib.Path(folder)
        for source, target in staged_files():
            (stage / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, stage / target)
        (stage / "MANIFEST.in").write_text("include weft_build.py\ngraft weft\n")
        os.chdir(stage)
        try:
            yield
        finally:
            os.chdir(before)


def staged_files():
    for name in ("pyproject.toml", "setup.py", "weft_build.py"):
        yield HERE / name, name
    for path in sorted((HERE / "torch_weft").glob("*.py")):
        yield path, path.relative_to(HERE)
    yield WEFT / "LICENSE", "LICENSE"
    for name in ("LICENSE", "Makefile", "libweft.map"):
        yield WEFT / name, f"weft/{name}"
    for folder in FOLDERS:
        for path in sorted((WEFT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path, pathlib.Path("weft") / path.relative_to(WEFT)


# --- torch


def find_torch(wanted):
    """The folder and version of the torch to build for. Nothing of it is run, so that its files are enough."""
    named = os.environ.get("TORCH_WEFT_TORCH")
    folders = [named] if named else [os.path.join(path, "torch") for path in site_folders()]
    for folder in map(pathlib.Path, folders):
        if (folder / "version.py").is_file() and (folder / "include").is_dir():
            break
    else:
        sys.exit(
            "torch_weft: no torch found in " + ", ".join(map(str, folders)) + ". The wheel is built for one version of torch: install "
            "it first (pip install torch), name its folder by TORCH_WEFT_TORCH, or give its version: --config-settings torch=2.13.0"
        )
    version = re.search(r"^__version__ = '([^']+)'", (folder / "version.py").read_text(), re.MULTILINE).group(1)
    if wanted and wanted not in (version, version.split("+")[0]):
        sys.exit(f"torch_weft: torch {wanted} is asked for, and torch {version} is found ({folder})")
    if tuple(map(int, version.split(".")[:2])) < NEEDED:
        sys.exit(
            f"torch_weft: torch {'.'.join(map(str, NEEDED))} or later is expected, not {version} ({folder}): what older ones ask "
            "a backend for has not been looked at"
        )
    return folder, version


def torch_minor():
    return ".".join(torch[1].split(".")[:2])


def site_folders():
    """Where a torch may lie: this interpreter's folders first. pip hides those of the environment that it was called in from the
    build: an interpreter that starts without pip's variables has them."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program = "import sys, sysconfig; print(*sys.path, sysconfig.get_path('platlib'), sep='\\n')"
    outer = subprocess.run([sys.executable, "-c", program], env=clean, capture_output=True, text=True, check=False)
    folders = [*sys.path, sysconfig.get_path("platlib"), *outer.stdout.split("\n")]
    return [folder for folder in dict.fromkeys(folders) if os.path.isabs(folder)]


# --- libweft.a


def build_library(folder):
    """Builds it in a folder; its path, and what is to be linked beside it."""
    folder = str(folder)
    fabrics = make(folder, "-s", "print-fabrics").split("\n")[-1].split()
    print("torch_weft: transports between hosts:", *fabrics, "tcp", flush=True)
    subprocess.run(command(folder, "-j", str(jobs()), "lib-static"), env=make_environment(), check=True)
    return os.path.join(folder, "libweft.a"), make(folder, "-s", "print-libs").split("\n")[-1].split()


def make(folder, *arguments):
    made = subprocess.run(command(folder, *arguments), env=make_environment(), check=True, stdout=subprocess.PIPE, text=True)
    return made.stdout.strip()


def command(folder, *arguments):
    return ["make", "--no-print-directory", "-C", "weft", f"BUILD={folder}", *arguments]


def make_environment():
    """Without the job server of a make that has called pip, which ends with pip's descriptors."""
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


def jobs():
    return len(os.sched_getaffinity(0))
