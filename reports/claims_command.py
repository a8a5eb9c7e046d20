"""The command `assay claims`: reads, measures where asked, judges, prints."""

from __future__ import annotations

import tempfile

from .claims import Court, Judged, Judgement, exit_code, pick, read
from .claims_evaluate import UNTESTABLE
from .claims_measured import Source
from .claims_output import as_json, explain, markdown, table
from .claims_run import measure
from .errors import InputProblem

FORMATS = {"table": table, "markdown": markdown, "json": as_json}


def run_claims(args, out) -> int:
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
        out.write(explain(court, judged[0]))
    else:
        out.write(FORMATS[args.format or "table"](court, judged))
    return exit_code(judged, args.strict)


def _measured(args, court: Court, claim) -> list:
    """Arithmetic, probes and what cannot be tried need no run."""
    if not claim.select:
        return court.judge_all([claim])
    with tempfile.TemporaryDirectory(prefix="assay-claim-") as folder:
        path, missing = measure(claim, court.check, args.budget, args.out, folder)
        if path is None:
            return [Judged(claim, (Judgement(UNTESTABLE, "; ".join(missing)),))]
        court.add(Source.read(path, args.out or "measured just now"))
    return court.judge_all([claim])
