"""The command line of `assay reproduce`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .errors import EnvironmentProblem, InputProblem
from .files import print_text, require_writable, write_whole

NEEDS = ("numpy", "scipy")
EPILOG = (
    "exit codes: 0 nothing contradicts the result; 1 inputs or deterministic outputs differ, a case fails now, or a "
    "time on the same machine lies outside the threshold; 2 malformed; 3 the environment cannot; 4 nothing was "
    "compared, or under --strict a case could not be"
)


def add_parser(commands):
    reproduce = commands.add_parser("reproduce", help="measure a published result again", epilog=EPILOG)
    reproduce.add_argument("result", metavar="RESULT", help="the result to reproduce: .json or .json.gz")
    reproduce.add_argument("--against", metavar="NEW", help="run nothing: compare with this result")
    reproduce.add_argument("--out", metavar="FILE", help="keep the new result")
    reproduce.add_argument("--device", default="", metavar="NAME[,NAME]", help="its cases on these devices only")
    reproduce.add_argument("--filter", metavar="REGEX", help="its cases whose id matches only")
    reproduce.add_argument("--budget", metavar="TIME", help="wall time of the run: 90s, 4m (default: the result's)")
    reproduce.add_argument("--wait", metavar="TIME", help="wait so long for a GPU that another run uses")
    reproduce.add_argument(
        "--allow-exec", action="store_true", help="run the program that an --exec result names; look at it first"
    )
    reproduce.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="[PATTERN=]PERCENT",
        help="least change of a time that counts (default 2%%); as in compare",
    )
    reproduce.add_argument(
        "--calibration", metavar="FILE", help="an A/A study of the machine; none: without (default: that of here)"
    )
    reproduce.add_argument("--strict", action="store_true", help="exit 4 where a case could not be compared")
    reproduce.add_argument("--quiet", action="store_true", help="no progress of the run")
    for form in ("markdown", "json"):
        reproduce.add_argument(f"--{form}", metavar="FILE", help=f"write {form} too; - for standard output")
    return reproduce


def run(args) -> int:
    from .calibration import chosen
    from .compare_command import thresholds
    from .reproduce import reproduction
    from .reproduce_output import as_json, markdown, text
    from .reproduce_plan import DURATION, Refusal, measure, read_recorded, select

    limits = thresholds(args.threshold)
    wanted = {form: getattr(args, form) for form in ("markdown", "json") if getattr(args, form)}
    for target in (*wanted.values(), *([args.out] if args.out else [])):
        require_writable(target)
    if list(wanted.values()).count("-") > 1:
        raise InputProblem("only one of --markdown and --json can go to standard output")
    for name in ("budget", "wait"):
        value = getattr(args, name)
        if value is not None and not DURATION.fullmatch(value):
            raise InputProblem(f"--{name} {value}: give a whole number with ms, s, m or h: 90s, 4m")
    if args.out and Path(args.out).exists():
        raise InputProblem(f"{args.out}: exists already; --out names a new file")
    calibration = chosen(args.calibration)
    old = read_recorded(args.result)
    select(old, [name for name in args.device.split(",") if name], args.filter)
    try:
        with tempfile.TemporaryDirectory(prefix="assay-reproduce-") as folder:
            new, refused = (args.against, Refusal()) if args.against else measure(old, args, Path(folder))
            found = reproduction(old, new, refused, limits, calibration, bool(args.against or args.out))
    except OSError as error:
        raise EnvironmentProblem(f"no temporary file can be written ({error.strerror}); set TMPDIR") from None
    code = found.exit_code(args.strict)
    makers = {"markdown": lambda: markdown(found), "json": lambda: as_json(found, code)}
    for form, target in wanted.items():
        if target != "-":
            write_whole(Path(target), makers[form]())
    shown = next((form for form, target in wanted.items() if target == "-"), None)
    print_text(makers[shown]() if shown else text(found))
    return code
