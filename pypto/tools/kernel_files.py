"""`python -m pypto run FILE.py:KERNEL`: run a kernel file's own specs and golden.

| a file has | names looked for |
|---|---|
| specs | `build_tensor_specs` or `build_specs`, a function; or `SPECS`, a list |
| modes | `MODES`: name -> arguments of the specs function, a tuple or a dict |
| golden | `golden_KERNEL`, `golden`, `golden_fn` |

A golden whose first parameter is called `values` or `tensors` takes the dict of all values and fills in the outputs; any other
takes the inputs in order and returns the outputs. `--specs` and `--golden` name others.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from pypto.errors import CallError, NumericsError
from pypto.language.programs import KernelProgram
from pypto.platform import PLATFORMS
from pypto.runtime import RunConfig, RunResult, benchmark, run
from pypto.runtime.harness import are_specs
from pypto.testing import ScalarSpec, TensorSpec
from pypto.tools.loading import loaded

_SPECS = ("build_tensor_specs", "build_specs", "SPECS")
_OF_DICT = ("values", "tensors")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("target", metavar="FILE.py:KERNEL", help="a kernel of a file; without :KERNEL, the only entry of the file")
    parser.add_argument("--mode", help="a key of the file's MODES; by default each of them")
    parser.add_argument("--specs", metavar="NAME", help=f"the specs, or the function that makes them; by default {', '.join(_SPECS)}")
    parser.add_argument("--golden", metavar="NAME", help="the golden; by default golden_KERNEL, golden or golden_fn")
    parser.add_argument("--platform", choices=sorted(PLATFORMS), help="what to compile for")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--rtol", type=float, help="allowed relative error; by default the dtype's")
    parser.add_argument("--atol", type=float, help="allowed absolute error; by default the dtype's")
    parser.add_argument("--fast", action="store_true", help="the compiled executor, without the reference executor's checks")
    parser.add_argument("--compile-only", action="store_true", help="stop when it is compiled")
    parser.add_argument("--dump-passes", action="store_true", help="with --save: one file per pass")
    parser.add_argument("--save", metavar="DIR", help="keep the compiled program there")
    parser.add_argument("--data", metavar="DIR", help="keep inputs and goldens there, and use them again")
    parser.add_argument("--benchmark", type=int, metavar="N", help="measure N launches after the check")


def command(args: argparse.Namespace) -> int:
    """Run one file; 0 if every mode passes."""
    with loaded(args.target) as (module, kernel):
        golden = _golden(module, kernel, args.golden)
        passed = True
        for mode, specs in _specs(module, args.specs, args.mode):
            result = _checked(kernel, specs, golden, args, f"{_title(kernel)}{f' {mode}' if mode else ''}")
            print(result)
            for report in result.reports.values() if result.passed else ():
                print(f"  {report}")
            passed &= result.passed
            if args.benchmark and result.compiled is not None and not args.compile_only:
                values = {s.name: s.make(args.seed) for s in specs}
                print(benchmark(result.compiled, [values[p] for p in result.compiled.param_names], rounds=args.benchmark))
    return 0 if passed else 1


def _title(kernel: Any) -> str:
    return kernel.name if isinstance(kernel, KernelProgram) else kernel.__name__


def _golden(module: ModuleType, kernel: Any, name: str | None) -> Any:
    names = [name] if name else [f"golden_{_title(kernel)}", "golden", "golden_fn"]
    found = next((getattr(module, n) for n in names if callable(getattr(module, n, None))), None)
    if name and found is None:
        raise CallError("PL601", f"the file has no golden {name!r}", fix="the name of a function")
    return found


def _specs(module: ModuleType, name: str | None, mode: str | None) -> Iterator[tuple[str, list[TensorSpec | ScalarSpec]]]:
    """The specs of each mode to run, with its name."""
    source = next((getattr(module, n) for n in ([name] if name else _SPECS) if hasattr(module, n)), None)
    if source is None:
        raise CallError(
            "PL601", f"the file has no specs: none of {name or ', '.join(_SPECS)}", fix="def build_tensor_specs(...): return [...]"
        )
    modes: Mapping[str, Any] = getattr(module, "MODES", {})
    if mode is not None and mode not in modes:
        raise CallError("PL601", f"the file has no mode {mode!r}", fix=f"one of {sorted(modes)}" if modes else "MODES = {'decode': (1, 8)}")
    if not callable(source):
        if modes:
            raise CallError(
                "PL601", "the file has MODES, and its specs are a list that they cannot change", fix="def build_tensor_specs(...)"
            )
        yield "", _list(source)
        return
    for each in [mode] if mode is not None else modes:
        given = modes[each]
        yield each, _list(source(**given) if isinstance(given, Mapping) else source(*given))
    if not modes:
        yield "", _list(source())


def _list(found: Any) -> list[TensorSpec | ScalarSpec]:
    specs = list(found)
    if not are_specs(specs):
        raise NumericsError("PL702", f"the specs are {specs!r}", fix="a list of TensorSpec and ScalarSpec")
    return specs


def _checked(kernel: Any, specs: list[TensorSpec | ScalarSpec], golden: Any, args: argparse.Namespace, title: str) -> RunResult:
    config = RunConfig(
        platform=args.platform or "",
        rtol=args.rtol,
        atol=args.atol,
        dump_passes=args.dump_passes,
        save_kernels=args.save is not None,
        save_kernels_dir=args.save,
        codegen_only=args.compile_only,
        golden_data_dir=args.data,
        **({"check": False, "executor": "cpu"} if args.fast else {}),
    )
    if golden is None:
        return run(kernel, specs, None, config, seed=args.seed, test_name=title)
    parameters = [*inspect.signature(golden).parameters]
    convention = "golden_fn" if parameters and parameters[0] in _OF_DICT else "golden"
    return run(kernel, specs, config=config, seed=args.seed, test_name=title, **{convention: golden})
