"""python -m reports COMMAND: see --help. Exit codes: 0 well, 1 a check failed, 2 bad input, 3 environment, 4 open."""

from __future__ import annotations

import argparse
import importlib
import sys

from . import compare_command
from .errors import EnvironmentProblem, InputProblem, one_line

NEEDED = ("numpy", "scipy", "matplotlib", "jinja2")


def _report(args) -> int:
    _require(NEEDED)
    from .report import write_report

    page = write_report(args.results, args.output, args.lang)
    print(page)
    return 0


def _validate(args) -> int:
    _require(("scipy", "jsonschema"))
    from .validate import validate_files

    return validate_files(args.results, sys.stdout)


def _claims(args) -> int:
    _require(("scipy",))
    from .claims_command import run_claims

    return run_claims(args, sys.stdout)


def _compare(args) -> int:
    _require(("numpy", "scipy"))
    return compare_command.run(args)


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

    report = commands.add_parser("report", help="one HTML page with plots; several results are compared side by side")
    report.add_argument("results", nargs="+", metavar="RESULT", help="assay.result/1 file, .json or .json.gz")
    report.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for report.html and plots/")
    report.add_argument("--lang", choices=("en", "zh"), default="en", help="language of texts and plots (default en)")
    report.set_defaults(run=_report)

    validate = commands.add_parser("validate", help="check files against the schema and recompute what is derived")
    validate.add_argument("results", nargs="+", metavar="RESULT", help="assay.result/1 file, .json or .json.gz")
    validate.set_defaults(run=_validate)

    claims = commands.add_parser("claims", help="judge written claims by results, arithmetic and small probes")
    claims.add_argument("file", metavar="FILE", help="claims in TOML; docs/claims.md is the reference")
    claims.add_argument("results", nargs="*", metavar="RESULT", help="assay.result/1 file, .json or .json.gz")
    claims.add_argument("--id", metavar="ID", help="judge this claim alone and explain its verdict")
    claims.add_argument("--run", action="store_true", dest="measure", help="with --id: measure what the claim needs")
    claims.add_argument("--budget", default="60s", metavar="TIME", help="of --run (default 60s)")
    claims.add_argument("--out", metavar="FILE", help="where --run leaves its result (default: it is not kept)")
    claims.add_argument("--format", choices=("table", "markdown", "json"), default=None, help="default table")
    claims.add_argument("--strict", action="store_true", help="exit 1 if one fails, else 4 if one is inconclusive")
    claims.set_defaults(run=_claims)
    compare_command.add_parser(commands).set_defaults(run=_compare)
    return top


def main(argv=None) -> int:
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except InputProblem as problem:
        print(f"assay {args.command}: {one_line(problem)}", file=sys.stderr)
        return 2
    except EnvironmentProblem as problem:
        print(f"assay {args.command}: {one_line(problem)}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
