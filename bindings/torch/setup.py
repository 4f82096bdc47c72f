# SPDX-License-Identifier: Apache-2.0
"""Builds the binary of torch_weft for one torch, with libweft in it. Runs in the stage that weft_build.py makes."""

import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    import weft_build
except ImportError:
    sys.exit("torch_weft: setup.py is not run by hand: pip install ./bindings/torch, or pip wheel ./bindings/torch")


class Build(build_ext):
    """libweft.a first, then PyTorch's headers, then the sources side by side."""

    def build_extension(self, ext):
        temporary = pathlib.Path(self.build_temp).resolve()
        library, beside_it = weft_build.build_library(os.environ.get("TORCH_WEFT_BUILD") or temporary / "weft")
        ext.extra_objects.append(library)
        ext.extra_link_args += ["-Wl,--exclude-libs,libweft.a", *beside_it]
        headers = self.compile_headers(ext, temporary / "headers")
        ext.include_dirs.insert(0, str(headers))
        ext.extra_compile_args += ["-include", str(headers / "torch.hpp"), "-Winvalid-pch"]
        self.compiler.compile = side_by_side(self.compiler.compile)
        super().build_extension(ext)

    def compile_headers(self, ext, folder):
        """PyTorch's headers in the form of gcc's that is read fast; clang reads the plain ones, which is as right."""
        folder.mkdir(parents=True)
        (folder / "torch.hpp").write_text(pathlib.Path("weft/bindings/torch/csrc/torch.hpp").read_text())
        compiler = self.compiler
        command = getattr(compiler, "compiler_so_cxx", None) or compiler.compiler_so
        includes = [f"-I{path}" for path in [*ext.include_dirs, *compiler.include_dirs]]
        macros = [f"-D{name}={value}" if value else f"-D{name}" for name, value in ext.define_macros]
        arguments = [*macros, *includes, *ext.extra_compile_args, "-x", "c++-header", str(folder / "torch.hpp")]
        compiler.spawn([*command, *arguments, "-o", str(folder / "torch.hpp.gch")])
        return folder


def side_by_side(compile_one):
    def compile_all(sources, *args, **options):
        with ThreadPoolExecutor(weft_build.jobs()) as pool:
            done = pool.map(lambda source: compile_one([source], *args, **options), sources)
            return [made for objects in done for made in objects]

    return compile_all


def for_torch(folder, minor):
    """What the wheel has beyond the sdist. Its file name carries torch's version, so that wheels for several lie in one folder."""
    name = "_C_" + minor.replace(".", "_")
    extension = Extension(
        f"torch_weft.{name}",
        sources=sorted(map(str, pathlib.Path("weft/bindings/torch/csrc").glob("*.cpp"))),
        include_dirs=["weft", "weft/include", str(folder / "include"), str(folder / "include/torch/csrc/api/include")],
        library_dirs=[str(folder / "lib")],
        libraries=["c10", "torch_cpu", "torch", "torch_python"],
        define_macros=[("TORCH_EXTENSION_NAME", name), ("PYBIND11_DETAILED_ERROR_MESSAGES", None)],
        extra_compile_args=["-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"],
        # Beside each other in one folder of packages. Without libweft's debug information, which is most of the file.
        extra_link_args=["-Wl,-rpath,$ORIGIN/../torch/lib", "-Wl,-S"],
        language="c++",
    )
    return {
        "cmdclass": {"build_ext": Build},
        "ext_modules": [extension],
        "install_requires": [f"torch=={minor}.*"],
        "options": {"bdist_wheel": {"build_number": f"{minor}torch"}},
    }


setup(version=weft_build.weft_version(), **(for_torch(weft_build.torch[0], weft_build.torch_minor()) if weft_build.torch else {}))
