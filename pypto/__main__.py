"""The command line: `python -m pypto run`, `python -m pypto show`, `python -m pypto ops`, `python -m pypto explain`."""

from __future__ import annotations

import argparse
import os
import sys

from pypto.errors import PyptoError


def _ops(args: argparse.Namespace) -> int:
    from pypto.core.op import OPS
    from pypto.tools import ops

    if args.missing:
        rows = list(ops.missing())
        for family, name, why in rows:
            print(f"{name:34} {family:18} {why}")
        print(f"{len(rows)} operations are not here")
        return 0 if all(why != "not built" for _, _, why in rows) else 1
    if args.write:
        from pathlib import Path

        from pypto.tools import manual

        print(f"{manual.write(Path(args.write))} pages in {args.write}")
    elif args.search:
        print("\n".join(ops.search(args.search)))
    elif args.name:
        print(ops.page(args.name), end="")
    else:
        print("\n".join(sorted(OPS)))
    return 0


def _run(args: argparse.Namespace) -> int:
    from pypto.tools import kernel_files

    return kernel_files.command(args)


def _explain(args: argparse.Namespace) -> int:
    from pypto.tools.lessons import lesson

    print(lesson(args.code.upper()), end="")
    return 0


def _show(args: argparse.Namespace) -> int:
    from pypto.tools.show import show

    print(show(args.target, args.stage, args.arg, args.platform, args.lines))
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code is 0 unless something was wrong or is missing."""
    parser = argparse.ArgumentParser(prog="python -m pypto", description="Run kernel files, look things up.")
    commands = parser.add_subparsers(required=True)
    ops = commands.add_parser("ops", help="list operations, or show one's manual page")
    ops.add_argument("name", nargs="?", help="an op or a spelling, such as row_max")
    ops.add_argument("--missing", action="store_true", help="what the language has and this version does not")
    ops.add_argument("--write", metavar="DIR", help="write the manual pages as Markdown")
    ops.add_argument("--search", metavar="WORD", help="names whose page mentions a word")
    ops.set_defaults(run=_ops)
    explain = commands.add_parser("explain", help="the lesson of an error code: what is wrong, and what to write")
    explain.add_argument("code", help="such as PL201")
    explain.set_defaults(run=_explain)
    shown = commands.add_parser("show", help="a kernel as text that reads like the language")
    shown.add_argument("target", metavar="FILE:KERNEL", help="such as docs/examples/softmax.py:softmax")
    shown.add_argument("--stage", default="tile", help="ref, as traced; tile, outlined into kernels (the default); placed")
    shown.add_argument("--arg", action="append", default=[], metavar="NAME=SHAPE:DTYPE", help="such as x=64x128:FP32, or n=4; repeatable")
    shown.add_argument("--platform", help="such as a2a3, a5, cpu")
    shown.add_argument("--lines", action="store_true", help="with the file and line of every statement")
    shown.set_defaults(run=_show)
    run = commands.add_parser("run", help="run a kernel file's specs against its golden")
    if (argv is None and sys.argv[1:2] == ["run"]) or (argv and argv[0] == "run"):  # its options are loaded with the language
        from pypto.tools import kernel_files

        kernel_files.add_arguments(run)
    run.set_defaults(run=_run)
    args = parser.parse_args(argv)
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `| head` has read enough; what is left to flush goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except PyptoError as error:
        if error.source is not None and error.source.file.startswith("<"):  # the command line is no file that has the fault
            error.source = None
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
