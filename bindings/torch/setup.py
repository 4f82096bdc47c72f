# SPDX-License-Identifier: Apache-2.0
"""Builds the binary of torch_weft for the torch that is installed where it is installed.

pip builds in an environment of its own, without torch. Nothing of torch is run here, so its files are enough: they are
looked for beside the packages of the interpreter's own environment. The binary carries libweft.
"""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
WEFT = HERE.parent.parent


def torch_folder():
    named = os.environ.get("TORCH_WEFT_TORCH")
    folders = [named] if named else [os.path.join(p, "torch") for p in site_folders()]
    for folder in map(pathlib.Path, folders):
        if (folder / "version.py").is_file() and (folder / "include").is_dir():
            return folder
    sys.exit(
        "torch_weft: no torch found in " + ", ".join(map(str, folders)) + ": install torch first (pip install torch), and build "
        "with --no-build-isolation or name torch's folder by TORCH_WEFT_TORCH where it is not seen"
    )


def site_folders():
    # Those of a build environment shadow the interpreter's own: ask it without them.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program = "import sys, sysconfig; print(*sys.path, sysconfig.get_path('platlib'), sep='\\n')"
    told = subprocess.run([sys.executable, "-c", program], env=clean, capture_output=True, text=True, check=False)
    folders = [*told.stdout.split("\n"), sysconfig.get_path("purelib"), *sys.path]
    return [folder for folder in dict.fromkeys(folders) if os.path.isabs(folder)]


def torch_version(folder):
    text = (folder / "version.py").read_text()
    return re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE).group(1)


def weft_version():
    text = (WEFT / "include/weft/weft.h").read_text()
    return ".".join(re.search(rf"define WEFT_VERSION_{part} +(\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


class Build(build_ext):
    """libweft.a first, then PyTorch's headers, then the sources side by side."""

    def build_extension(self, ext):
        build = os.environ.get("TORCH_WEFT_BUILD", str(WEFT / "build"))
        jobs = str(os.cpu_count() or 1)
        subprocess.run(["make", "-C", str(WEFT), "-j", jobs, f"BUILD={build}", "lib"], check=True)
        private = subprocess.run(
            ["make", "-s", "--no-print-directory", "-C", str(WEFT), "print-libs"], check=True, capture_output=True, text=True
        ).stdout.split()
        ext.extra_objects.append(os.path.join(build, "libweft.a"))
        ext.depends.append(os.path.join(build, "libweft.a"))
        ext.extra_link_args += ["-Wl,--exclude-libs,libweft.a", *private]
        headers = self.compile_headers(ext)
        ext.include_dirs.insert(0, str(headers))
        ext.extra_compile_args += ["-include", str(headers / "torch.hpp"), "-Winvalid-pch"]
        self.compiler.compile = side_by_side(self.compiler.compile)
        super().build_extension(ext)

    def compile_headers(self, ext):
        """PyTorch's headers in the form of gcc's that is read fast; clang reads the plain ones, which is as right."""
        folder = pathlib.Path(self.build_temp).resolve() / f"headers-{VERSION}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "torch.hpp").write_text((HERE / "csrc/torch.hpp").read_text())
        compiler = self.compiler
        command = getattr(compiler, "compiler_so_cxx", None) or compiler.compiler_so
        includes = [f"-I{path}" for path in [*ext.include_dirs, *compiler.include_dirs]]
        macros = [f"-D{name}={value}" if value else f"-D{name}" for name, value in ext.define_macros]
        target = folder / "torch.hpp.gch"
        if not target.exists() or target.stat().st_mtime < (HERE / "csrc/torch.hpp").stat().st_mtime:
            arguments = [*macros, *includes, *ext.extra_compile_args, "-x", "c++-header", str(folder / "torch.hpp")]
            compiler.spawn([*command, *arguments, "-o", str(target)])
        return folder


def side_by_side(compile_one):
    from concurrent.futures import ThreadPoolExecutor

    def compile_all(sources, *args, **options):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            done = pool.map(lambda source: compile_one([source], *args, **options), sources)
            return [made for objects in done for made in objects]

    return compile_all


TORCH = torch_folder()
VERSION = torch_version(TORCH)
MINOR = "_".join(VERSION.split("+")[0].split(".")[:2])
if tuple(map(int, MINOR.split("_"))) < (2, 13):
    sys.exit(f"torch_weft: torch 2.13 or later is expected, not {VERSION} ({TORCH}): what older ones ask a backend for has not been looked at")
setup(
    version=weft_version(),
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            f"torch_weft._C_{MINOR}",
            sources=sorted(str(p.relative_to(HERE)) for p in HERE.glob("csrc/*.cpp")),
            depends=[*sorted(str(p.relative_to(HERE)) for p in HERE.glob("csrc/*.hpp")), str(TORCH / "version.py")],
            include_dirs=[str(WEFT), str(WEFT / "include"), str(TORCH / "include"), str(TORCH / "include/torch/csrc/api/include")],
            library_dirs=[str(TORCH / "lib")],
            libraries=["c10", "torch_cpu", "torch", "torch_python"],
            define_macros=[("TORCH_EXTENSION_NAME", f"_C_{MINOR}"), ("PYBIND11_DETAILED_ERROR_MESSAGES", None)],
            extra_compile_args=["-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            # Beside each other in one folder of packages.
            extra_link_args=["-Wl,-rpath,$ORIGIN/../torch/lib"],
            language="c++",
        )
    ],
)
