"""The command `assay claims`: reads, measures where asked, judges, prints."""

from __future__ import annotations

import sys
import tempfile

from .errors import InputProblem

NEEDS = ("scipy",)


def add_parser(commands):
    claims = commands.add_parser("claims", help="judge written claims by results, arithmetic and small probes")
    claims.add_argument("file", metavar="FILE", help="claims in TOML; docs/claims.md is the reference")
    claims.add_argument("results", nargs="*", metavar="RESULT", help="assay.result/1 file, .json or .json.gz")
    claims.add_argument("--id", metavar="ID", help="judge this claim alone and explain its verdict")
    claims.add_argument("--run", action="store_true", dest="measure", help="with --id: measure what the claim needs")
    claims.add_argument("--budget", default="60s", metavar="TIME", help="of --run (default 60s)")
    claims.add_argument("--out", metavar="FILE", help="where --run leaves its result (default: it is not kept)")
    claims.add_argument("--format", choices=("table", "markdown", "json"), default=None, help="default table")
    claims.add_argument("--strict", action="store_true", help="exit 1 if one fails, else 4 if one is inconclusive")
    return claims


def run(args) -> int:
    from .claims import Court, exit_code, pick, read
    from .claims_output import as_json, explain, markdown, table

    if args.measure and not args.id:
        raise InputProblem("--run goes with --id: it measures what one claim needs")
    if args.measure and args.results:
        raise InputProblem("--run makes its own result: name no other")
    if args.out and not args.measure:
        raise InputProblem("--out goes with --run")
    claims, sources = read(args.file, args.results)
    if args.id:
        claims = [pick(claims, args.file, args.id)]
    court = Court(args.file, sources)
    judged = _measured(args, court, claims[0]) if args.measure else court.judge_all(claims)
    if args.id and args.format is None:
        sys.stdout.write(explain(court, judged[0]))
    else:
        makers = {"table": table, "markdown": markdown, "json": as_json}
        sys.stdout.write(makers[args.format or "table"](court, judged))
    return exit_code(judged, args.strict)


def _measured(args, court, claim) -> list:
    """Arithmetic, probes and what cannot be tried need no run."""
    from .claims import Judged, Judgement
    from .claims_evaluate import UNTESTABLE
    from .claims_measured import Source
    from .claims_run import measure

    if not claim.select:
        return court.judge_all([claim])
    with tempfile.TemporaryDirectory(prefix="assay-claim-") as folder:
        path, missing = measure(claim, court.check, args.budget, args.out, folder)
        if path is None:
            return [Judged(claim, (Judgement(UNTESTABLE, "; ".join(missing)),))]
        court.add(Source.read(path, args.out or "measured just now"))
    return court.judge_all([claim])
