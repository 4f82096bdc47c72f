# SPDX-License-Identifier: Apache-2.0
"""Builds the binary of torch_weft for one torch, with libweft in it. Runs in the stage that weft_build.py makes."""

import os
import pathlib
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    import weft_build
except ImportError:
    sys.exit("torch_weft: setup.py is not run by hand: pip install ./bindings/torch, or pip wheel ./bindings/torch")


class Build(build_ext):
    """libweft.a first, then all sources as one: most of what is compiled is PyTorch's headers, and they are read once."""

    def build_extension(self, ext):
        temporary = pathlib.Path(self.build_temp).resolve()
        library, beside_it = weft_build.build_library(os.environ.get("TORCH_WEFT_BUILD") or temporary / "weft")
        ext.extra_objects.append(library)
        ext.extra_link_args += ["-Wl,--exclude-libs,libweft.a", *beside_it]
        everything = temporary / "torch_weft.cpp"
        everything.parent.mkdir(parents=True, exist_ok=True)
        everything.write_text("".join(f'#include "{pathlib.Path(source).resolve()}"\n' for source in ext.sources))
        ext.sources = [os.path.relpath(everything)]
        super().build_extension(ext)


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
