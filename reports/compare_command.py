"""The command line of `assay compare`."""

from __future__ import annotations

from pathlib import Path

from .errors import InputProblem
from .files import print_text, require_writable, write_whole

NEEDS = ("numpy", "scipy")
FORMS = ("markdown", "json", "junit")
EPILOG = (
    "exit codes: 0 all the same or faster (what is undecided is counted in a warning); 1 a case is slower, or failed "
    "in NEW alone; 2 malformed, or not comparable; 3 the environment; 4 undecided or missing cases under --strict"
)


def add_parser(commands):
    compare = commands.add_parser("compare", help="is NEW slower or faster than BASE, case by case", epilog=EPILOG)
    for name in ("base", "new"):
        text = "result, or folder of launches: of Assay, Google Benchmark, nvbench or hyperfine; .json or .json.gz"
        compare.add_argument(name, metavar=name.upper(), help=text)
    add_common(compare)
    compare.add_argument("--fail-on-resources", action="store_true", help="exit 1 where memory, registers ... grew")
    return compare


def add_common(parser) -> None:
    """What duet takes too."""
    parser.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="[PATTERN=]PERCENT",
        help="least change that counts (default 2%%); for ids that match the shell pattern; repeatable, the last wins",
    )
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        help="an A/A study of the machine, docs/compare.md; none: judge without (default: that of this machine)",
    )
    parser.add_argument("--force-mixed", action="store_true", help="compare unlike machines, placements, data ...")
    parser.add_argument("--strict", action="store_true", help="exit 4 where a case is undecided, missing or failed")
    for form in FORMS:
        parser.add_argument(f"--{form}", metavar="FILE", help=f"write {form} too; - for standard output")


def thresholds(words: list) -> list:
    """`5%`, `2.5`, `matmul/*=5%` as (pattern or None, share)."""
    out = []
    for word in words:
        pattern, equals, number = word.rpartition("=")
        try:
            value = float(number.removesuffix("%"))
        except ValueError:
            value = -1.0
        if not 0 < value < 1000 or (equals and not pattern):
            raise InputProblem(f"--threshold {word}: give a percentage above 0: 5%, or 'matmul/*=5%'")
        out.append((pattern or None, value / 100))
    return out


def run(args) -> int:
    from .calibration import chosen
    from .compare import compare_paths

    limits = thresholds(args.threshold)
    check_outputs(args)
    calibration = chosen(args.calibration)
    found = compare_paths(args.base, args.new, limits, calibration, args.force_mixed)
    code = found.exit_code(args.strict, args.fail_on_resources)
    put_out(found, code, args)
    return code


def _wanted(args) -> dict:
    return {form: getattr(args, form) for form in FORMS if getattr(args, form)}


def check_outputs(args) -> None:
    """Before the work, not after it."""
    targets = list(_wanted(args).values())
    for target in targets:
        require_writable(target)
    if targets.count("-") > 1:
        raise InputProblem("only one of --markdown, --json and --junit can go to standard output")


def put_out(found, code: int, args) -> None:
    from .compare_output import as_json, junit, markdown, text

    makers = {
        "markdown": lambda: markdown(found),
        "json": lambda: as_json(found, code),
        "junit": lambda: junit(found, args.strict),
    }
    wanted = _wanted(args)
    for form, target in wanted.items():
        if target != "-":
            write_whole(Path(target), makers[form]())
    shown = next((form for form, target in wanted.items() if target == "-"), None)
    print_text(makers[shown]() if shown else text(found))
