"""Run every benchmark, or the ones named: `python -m benchmarks [NAME ...]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def main(names: list[str]) -> int:
    """Run benchmarks by name; all of them when none is named."""
    found = sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.name.startswith("_"))
    unknown = set(names) - set(found)
    if unknown:
        print(f"there is no benchmark {sorted(unknown)[0]}; there are: {', '.join(found)}", file=sys.stderr)
        return 1
    for name in names or found:
        print(f"== {name}")
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
