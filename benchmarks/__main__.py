"""All measurements: `python -m benchmarks [workloads] [startup] [transforms] [curves] [--quick] [--json FILE]`; `./dev bench` is the same.

Prints the tables, and writes all figures with what they were measured on to `build/bench.json`. The machine is never quiet enough for
times of two runs to be compared: ratios within one run are what counts.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import curves, startup, transforms, workloads
from pypto.interpreters.cpu.machine import host
from pypto.interpreters.cpu.native import processors
from pypto.version import VERSION

PARTS = ("workloads", "startup", "transforms", "curves")


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "ml_dtypes", "llvmlite", "jax")}
    versions["triton"] = importlib.metadata.version("triton") if workloads.triton() is not None else "not installed"
    busy = dict(zip(("1 min", "5 min", "15 min"), os.getloadavg(), strict=True)) if hasattr(os, "getloadavg") else {}
    return {"pypto": VERSION, **versions, "python": platform.python_version(), "cpu": host()[0], "processors": processors(), "load": busy}


def main(arguments: list[str]) -> int:
    """Run the parts, and write the figures."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="part", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="without the peers that take seconds, and without curves")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {"when": time.strftime("%Y-%m-%d %H:%M"), "machine": machine()}
    print(", ".join(f"{name} {value}" for name, value in found["machine"].items()))
    for part in given.parts or (PARTS[:3] if given.quick else PARTS):
        print(f"== {part}", flush=True)
        if part == "workloads":
            found[part] = workloads.main(["--quick"] if given.quick else [])
        else:
            found[part] = {"startup": startup, "transforms": transforms, "curves": curves}[part].main()
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=1))
    print(f"\nfigures: {given.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
