# SPDX-License-Identifier: Apache-2.0
"""What every comparison writes down: sizes, the machine, the file."""

import json
import os
import platform
import time


def parse_size(text):
    units = {"K": 10, "M": 20, "G": 30}
    text = text.strip().upper().rstrip("B")
    shift = units.get(text[-1:], 0)
    return int(text[:-1] if shift else text) << shift


def name_size(size):
    for unit, shift in (("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}B"
    return f"{size} B"


def machine():
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return {"host": platform.node(), "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "cpu": model, "processors": os.cpu_count(), "load_average": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def write_json(path, document):
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(temporary, path)
