"""The command line of `assay nightly`."""

from __future__ import annotations

from pathlib import Path

from .baseline_command import STORE
from .errors import EnvironmentProblem, InputProblem, visible

NEEDS = ("numpy", "scipy", "matplotlib", "jinja2", "ruptures")
EPILOG = (
    "exit codes: 0 no alert, also without a baseline; 1 a case is slower twice, has a change for the worse that no "
    "baseline accepts, or failed and was measured before; 2 malformed input; 3 the environment, or the suspects could "
    "not be measured again; 4 with --strict: nothing was compared, or a case is undecided"
)


def add_parser(commands):
    nightly = commands.add_parser(
        "nightly", help="one night: against the baseline, and by the changes of the history", epilog=EPILOG
    )
    nightly.add_argument("result", nargs="?", metavar="RESULT", help="of tonight; none: judge the history as it is")
    nightly.add_argument("options", nargs="*", metavar="-- OPTION", help="of `assay run`, to repeat suspects alike")
    nightly.add_argument("--store", default=STORE, metavar="DIR", help=f"histories and baselines (default {STORE})")
    nightly.add_argument("--key", help="without RESULT: which machine of the store (default: the only one)")
    nightly.add_argument("-o", "--output", metavar="DIR", help="summary, JUnit, page (default STORE/KEY/latest)")
    again = nightly.add_mutually_exclusive_group()
    again.add_argument("--repeat", metavar="FILE", help="a result of the suspects, measured again already")
    again.add_argument("--no-repeat", action="store_true", help="measure nothing: what looks slower stays unconfirmed")
    nightly.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="[PATTERN=]PERCENT",
        help="least change that counts (default 2%%), as in compare",
    )
    nightly.add_argument("--recent", type=int, metavar="N", help="nights for which a change alerts (default 30)")
    nightly.add_argument("--strict", action="store_true", help="exit 4 where nothing was compared or is undecided")
    return nightly


def run(args) -> int:
    from . import history, nightly, nightly_output, trend
    from .compare_command import thresholds
    from .compare_output import as_json
    from .files import print_text, write_whole
    from .nightly_history import RECENT
    from .nightly_run import repeater

    limits = thresholds(args.threshold)
    recent = RECENT if args.recent is None else args.recent
    if recent < 1:
        raise InputProblem("--recent: give a whole number above 0")
    tonight = history.read_result(args.result) if args.result else None
    key = tonight.machine.key if tonight else _key(args)
    output = Path(args.output) if args.output else Path(args.store) / key / "latest"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(f"{output}: cannot be made ({error.strerror}); name another -o DIR") from None
    repeat = args.repeat or (None if args.no_repeat else repeater(args.options, output))
    found = nightly.judge(args.store, tonight, key, repeat, limits, recent)
    code = found.exit_code(args.strict)
    write_whole(output / "summary.md", nightly_output.markdown(found))
    write_whole(output / "junit.xml", nightly_output.junit(found))
    write_whole(output / "trend.html", trend.page(found))
    comparison = output / "compare.json"
    if found.comparison:
        write_whole(comparison, as_json(found.comparison, found.comparison.exit_code()))
    else:
        comparison.unlink(missing_ok=True)
    print_text(nightly_output.text(found) + f"\nsummary, JUnit and trend page: {visible(str(output))}\n")
    return code


def _key(args) -> str:
    from . import history

    known = [folder.key for folder, _ in history.folders(args.store)]
    fits = [key for key in known if args.key is None or key.startswith(args.key)]
    if len(fits) == 1:
        return fits[0]
    if not known:
        raise InputProblem(f"{args.store} holds no history: give a RESULT, or another --store DIR")
    raise InputProblem(f"name one machine of {args.store} with --key: {', '.join(known)}")
