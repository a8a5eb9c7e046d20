"""python -m reports COMMAND: see --help. Exit codes: 0 well, 1 a check failed, 2 bad input, 3 environment, 4 open.

A command is a module with add_parser(commands) -> parser, run(args) -> exit code, and NEEDS, the modules that it
imports beyond the standard library; they are imported only when the command runs. A module may have PROBLEM, which is
added to the codes 2 and 3 (bisect: what `git bisect run` must not take for a verdict).
"""

from __future__ import annotations

import argparse
import importlib
import sys

from . import (
    baseline_command,
    bisect_command,
    calibrate_command,
    claims_command,
    compare_command,
    duet_command,
    nightly_command,
    report_command,
    reproduce_command,
    size_command,
    validate_command,
)
from .errors import EnvironmentProblem, InputProblem, one_line

COMMANDS = (
    report_command,
    validate_command,
    claims_command,
    compare_command,
    duet_command,
    bisect_command,
    calibrate_command,
    reproduce_command,
    baseline_command,
    nightly_command,
    size_command,
)


def _require(modules) -> None:
    """Exit 3 with every missing module named, not only the first."""
    missing = []
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise EnvironmentProblem(
            f"{sys.executable} lacks {', '.join(missing)}: install reports/requirements.lock with pip, "
            "or name another interpreter in ASSAY_PYTHON"
        )


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="assay", description="Reports on assay.result/1 files (.json or .json.gz).")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        one = module.add_parser(commands)
        one.set_defaults(module=module, parser=one)
    return top


def main(argv=None) -> int:
    args, unknown = parser().parse_known_args(argv)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    added = getattr(args.module, "PROBLEM", 0)
    try:
        _require(args.module.NEEDS)
        return args.module.run(args)
    except InputProblem as problem:
        print(f"assay {args.command}: {one_line(problem)}", file=sys.stderr)
        return added + 2
    except EnvironmentProblem as problem:
        print(f"assay {args.command}: {one_line(problem)}", file=sys.stderr)
        return added + 3


if __name__ == "__main__":
    sys.exit(main())
