"""`assay bisect`: a duet of a good build and the commit that is checked out, for `git bisect run`. docs/duet.md."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from .compare_command import check_outputs, put_out, thresholds
from .duet import LaunchProblem
from .duet_command import (
    NothingToRun,
    add_options,
    add_side_options,
    binary,
    duet,
    interruptible,
    launch_settings,
    lock_words,
    settle,
    sides,
)
from .errors import EnvironmentProblem, InputProblem, one_line

NEEDS = ("numpy", "scipy")
GOOD, BAD, SKIP = 0, 1, 125
STANDARD_ERROR = 2
PROBLEM = 128  # git bisect stops at 128 and above; below, all but 0 and 125 would call the commit bad
EPILOG = (
    "exit codes, as git bisect run reads them: 0 good; 1 a case is slower; 125 skip (the build failed, no binary, it "
    "does not run or has none of the cases, undecided); 130 usage and 131 environment: the search stops"
)


def add_parser(commands):
    bisect = commands.add_parser(
        "bisect", help="is the commit that is checked out slower? for git bisect run", epilog=EPILOG
    )
    bisect.add_argument("--good", metavar="BINARY", help="assay of a good commit, outside the tree (default: this one)")
    bisect.add_argument("--build", required=True, metavar="COMMAND", help="builds the commit; a shell runs it")
    bisect.add_argument(
        "--binary", default="build/release/bin/assay", metavar="PATH", help="what it makes (default %(default)s)"
    )
    bisect.add_argument("--case", action="append", default=[], metavar="ID", help="a case to judge by; repeatable")
    bisect.add_argument("--filter", metavar="REGEX", help="cases to judge by: ids that match")
    bisect.add_argument("options", nargs="*", metavar="-- OPTION", help="of assay duet, behind --")
    bisect.error = _usage
    return bisect


def _usage(message: str):
    print(f"assay bisect: {one_line(message)}; see assay bisect --help", file=sys.stderr)
    sys.exit(PROBLEM + 2)


def run(args) -> int:
    try:
        return _verdict(args)
    except (InputProblem, EnvironmentProblem):
        raise
    except Exception:
        # A traceback would end in 1, which calls the commit bad.
        traceback.print_exc()
        return PROBLEM + 3


def _verdict(args) -> int:
    good = binary(args.good or os.environ.get("ASSAY_COMMAND") or "assay")
    options = _duet_options(args, good)
    limits = thresholds(options.threshold)
    check_outputs(options)
    settings = launch_settings(options)
    with interruptible():
        if not _built(args.build):
            return _skip("the build failed")
        if not os.access(args.binary, os.X_OK) or not Path(args.binary).is_file():
            return _skip(f"the build left no {args.binary}; --binary names what it makes")
        if Path(args.binary).samefile(good):
            raise InputProblem(f"--good {good} is what the build makes: keep the good build outside the tree")
        return _compared(options, limits, settings, args.case)


def _built(command: str) -> bool:
    """Its output goes to standard error: standard output is the comparison's."""
    done = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, stdout=STANDARD_ERROR, check=False)
    return done.returncode == 0


def _duet_options(args, good: str) -> argparse.Namespace:
    """What stands behind --, with both binaries and what bisect has by itself."""
    parser = argparse.ArgumentParser(prog="assay bisect ... --", add_help=False)
    parser.error = _usage
    add_side_options(parser)
    add_options(parser)
    options = parser.parse_args(args.options)
    if args.case and (options.cases or options.filter or args.filter):
        raise InputProblem("--case names the cases: leave --cases and --filter away")
    options.filter = args.filter or options.filter
    options.a, options.b = good, args.binary
    return options


def _compared(options, limits: list, settings: tuple, cases: list) -> int:
    with tempfile.TemporaryDirectory(prefix="assay-bisect-") as folder:
        if cases:
            options.cases = str(Path(folder) / "cases")
            Path(options.cases).write_text("".join(f"{name}\n" for name in cases), encoding="utf-8")
        a, b = sides(options)
        try:
            settled = settle(options, a, b)
            words = lock_words(settled[0])
            if words:
                code = subprocess.run(words, check=False).returncode
                return PROBLEM + code if code in (2, 3) else code
            found = duet(options, a, b, Path(folder) / "duet", limits, settings, settled)
        except NothingToRun as problem:
            return _skip(one_line(problem))
        except LaunchProblem as problem:
            if problem.side == "a":
                raise
            return _skip(one_line(problem))
    code = exit_code(found)
    put_out(found, code, options)
    print(f"assay bisect: {({GOOD: 'good', BAD: 'bad', SKIP: 'skipped'})[code]}", file=sys.stderr)
    return code


def exit_code(found) -> int:
    """Slower is bad. A commit that breaks a case is another fault than the one that is looked for."""
    counts = found.counts()
    if counts["slower"]:
        return BAD
    decided = counts["same"] + counts["faster"]
    return GOOD if decided and not counts["inconclusive"] and not found.broken else SKIP


def _skip(why: str) -> int:
    print(f"assay bisect: skipped: {why}", file=sys.stderr)
    return SKIP
