"""The command line of `assay baseline`."""

from __future__ import annotations

from .errors import InputProblem, visible

NEEDS = ("numpy", "scipy")
STORE = "results/local/nightly"
EPILOG = "exit codes: 0 done; 2 the result cannot become a baseline, malformed input; 3 the environment"


def add_parser(commands):
    top = commands.add_parser("baseline", help="accept a result as what later nights are compared with", epilog=EPILOG)
    what = top.add_subparsers(dest="what", required=True, metavar="accept|list|show")
    accept = what.add_parser("accept", help="from now on compare with RESULT; acknowledges the changes up to it")
    accept.add_argument("result", metavar="RESULT", help="assay.result/1 file, .json or .json.gz")
    accept.add_argument("--reason", required=True, metavar="TEXT", help="why; it is kept")
    accept.add_argument("--force", action="store_true", help="even with failed cases; never a dirty or sanitized build")
    listed = what.add_parser("list", help="the baseline of each machine, driver and toolkit")
    show = what.add_parser("show", help="one key: the machine and every acceptance")
    show.add_argument("key", metavar="KEY", nargs="?", help="as `list` prints it, or its beginning (default: the only)")
    for parser in (accept, listed, show):
        parser.add_argument("--store", default=STORE, metavar="DIR", help=f"default {STORE}")
    return top


def run(args) -> int:
    return {"accept": _accept, "list": _list, "show": _show}[args.what](args)


def _accept(args) -> int:
    from . import baseline

    found, warnings = baseline.accept(args.result, args.reason, args.store, args.force)
    print(f"baseline of {found.folder.key}: result of {found.date:%Y-%m-%d %H:%M} UTC, commit {_commit(found)}")
    print(f"kept as {found.path}")
    for line in warnings:
        print(f"warning: {visible(line)}")
    return 0


def _commit(found) -> str:
    return visible(str(found.commit or "unknown"))[:12]


def _list(args) -> int:
    from . import baseline, history

    rows = [("key", "result of", "commit", "under", "reason")]
    for folder, machine in history.folders(args.store):
        found, broken = baseline.accepted(folder)
        last = found[-1] if found else None
        cells = (f"{last.date:%Y-%m-%d %H:%M}", _commit(last)) if last else ("none", "-")
        rows.append((folder.key, *cells, machine.software, visible(last.reason) if last else _none(broken)))
    if len(rows) == 1:
        print(f"{args.store} holds no machine yet: assay baseline accept RESULT --reason TEXT --store {args.store}")
        return 0
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _none(broken: int) -> str:
    return f"{broken} lines of baseline.jsonl cannot be read" if broken else "not accepted yet"


def _show(args) -> int:
    from . import baseline, history

    known = history.folders(args.store)
    fits = [(f, m) for f, m in known if args.key is None or f.key.startswith(args.key)]
    if len(fits) != 1:
        names = ", ".join(f.key for f, _ in known) or "none"
        raise InputProblem(f"name one key of {args.store}: it has {names}")
    folder, machine = fits[0]
    print(folder.key)
    for name, value in machine.identity.items():
        print(f"  {name:17} {visible(', '.join(value) if isinstance(value, list) else value)}")
    for name, value in (("host name", machine.host), ("uuids", ", ".join(machine.uuids)), ("under", machine.software)):
        print(f"  {name:17} {visible(value or '-')}")
    found, broken = baseline.accepted(folder)
    print("acceptances" if found else _none(broken))
    for row in found:
        print(f"  {visible(row.accepted)}  result of {row.date:%Y-%m-%d %H:%M}, commit {_commit(row)}, {row.result}")
        for line in (row.reason, *(f"warning: {w}" for w in row.warnings)):
            print(f"    {visible(line)}")
    if found and broken:
        print(f"  {_none(broken)}; repair or delete them")
    return 0
