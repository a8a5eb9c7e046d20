"""`assay claims FILE RESULT...`: judges written claims by results, arithmetic and small probes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .claims_evaluate import FAILS, HOLDS, INCONCLUSIVE, UNTESTABLE, Evaluation, joined
from .claims_file import Claim, load_claims
from .claims_language import ExpressionError
from .claims_measured import Figures, Illegal, Source, Unknown, Untestable, check_selection, find_case
from .claims_quantity import parse_unit, shown
from .errors import InputProblem
from .probes import PROBES

VERDICTS = (HOLDS, FAILS, INCONCLUSIVE, UNTESTABLE)
CONFIDENCE = 0.95  # of arithmetic, where no result says another; an exact number has no interval anyway


@dataclass(frozen=True)
class Measured:
    """The figure that stands beside the claimed one, in base units."""

    value: float
    low: float | None
    high: float | None
    dimension: tuple
    unit: str | None

    @property
    def text(self) -> str:
        value = shown(self.value, self.dimension, self.unit)
        if self.low == self.high == self.value:
            return value
        if self.low is None:
            return f"{value} [no interval]"
        texts = [value, *(shown(x, self.dimension, self.unit) for x in (self.low, self.high))]
        units = {text.partition(" ")[2] for text in texts}
        if len(units) == 1:  # the unit once, at the end
            texts = [text.partition(" ")[0] for text in texts]
        return f"{texts[0]} [{texts[1]}, {texts[2]}] {units.pop() if len(units) == 1 else ''}".rstrip()

    def record(self) -> dict:
        scale = parse_unit(self.unit)[0] if self.unit else 1.0
        figures = {k: None if v is None else v / scale for k, v in vars(self).items() if k in ("value", "low", "high")}
        return figures | {"unit": self.unit or shown(1.0, self.dimension).partition(" ")[2], "text": self.text}


@dataclass(frozen=True)
class Instance:
    """A claim tried once: for one combination of its `each` values, on one result."""

    variables: dict
    verdict: str
    reason: str | None
    measured: Measured | None
    trials: tuple = ()
    cases: dict = field(default_factory=dict)  # name to Case, those that were found

    @property
    def label(self) -> str:
        return ", ".join(f"{k} {v}" for k, v in self.variables.items())


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict on one result; `source` is its number, None for arithmetic, probes and the untestable."""

    verdict: str
    reason: str | None = None
    source: int | None = None
    instances: tuple = ()
    evidence: str | None = None
    notes: tuple = ()

    @property
    def measured(self) -> Measured | None:
        return self.instances[0].measured if len(self.instances) == 1 else None


@dataclass(frozen=True)
class Judged:
    claim: Claim
    judgements: tuple


class Court:
    """Judges the claims of one file by some results."""

    def __init__(self, path, sources: list):
        self.path, self.sources = Path(path), sources
        self.figures = [Figures(source) for source in sources]

    def add(self, source: Source) -> None:
        self.sources.append(source)
        self.figures.append(Figures(source))

    def fail(self, claim: Claim, line: int, message: str):
        raise InputProblem(f"{self.path}:{line}: claim {claim.id!r}: {message}")

    def check(self, claim: Claim, catalogue: dict) -> None:
        """An illegal selection is an error even where nothing would be measured. What a newer claim selects may be
        unknown to an older result."""
        for variables in claim.instances():
            for name, selection in claim.selections(variables).items():
                try:
                    check_selection(selection, catalogue)
                except Illegal as illegal:
                    if isinstance(illegal, Unknown) and claim.newer:
                        continue
                    self.fail(claim, claim.line("select", name, illegal.field), str(illegal))
                except Untestable:
                    continue

    def judge_all(self, claims: list) -> list:
        for source in self.sources:
            for claim in claims:
                self.check(claim, source.result.plan["catalogue"])
        return [Judged(claim, tuple(self.judge(claim))) for claim in claims]

    def judge(self, claim: Claim) -> list:
        if claim.untestable is not None:
            return [Judgement(UNTESTABLE, _waiting(claim))]
        if claim.probe is not None:
            return [self._probe(claim)]
        if claim.rule == "arithmetic":
            return [self._judge(claim, None)]
        if not self.sources:
            return [Judgement(UNTESTABLE, f"no result was given; it needs suite {', '.join(claim.suites)}")]
        found = [self._judge(claim, i) for i in range(len(self.sources))]
        tried = [j for j in found if j.verdict != UNTESTABLE]
        if tried:
            return tried
        reasons = dict.fromkeys(j.reason for j in found)
        return [Judgement(UNTESTABLE, "; ".join(reasons), None, found[0].instances if len(found) == 1 else ())]

    @staticmethod
    def _probe(claim: Claim) -> Judgement:
        seen = PROBES[claim.probe][0]()
        verdict = {True: HOLDS, False: FAILS, None: INCONCLUSIVE if seen.tried else UNTESTABLE}[seen.seen]
        undecided = verdict in (INCONCLUSIVE, UNTESTABLE)
        return Judgement(verdict, seen.evidence if undecided else None, evidence=seen.evidence)

    def _judge(self, claim: Claim, index: int | None) -> Judgement:
        instances = [self._instance(claim, index, variables) for variables in claim.instances()]
        tried = [i for i in instances if i.verdict != UNTESTABLE]
        notes = [f"{len(tried)} of {len(instances)} cases measured"] if 0 < len(tried) < len(instances) else []
        notes += _suspicions(instances)
        verdict = joined([i.verdict for i in tried or instances])
        reasons = dict.fromkeys(i.reason for i in tried or instances if i.verdict == verdict and i.reason)
        return Judgement(verdict, "; ".join(reasons) or None, index, tuple(instances), None, tuple(notes))

    def _instance(self, claim: Claim, index: int | None, variables: dict) -> Instance:
        cases = {}
        for name, selection in claim.selections(variables).items():
            try:
                cases[name] = find_case(selection, self.sources[index].result)
            except Untestable as missing:
                cases[name] = missing
            except Unknown as unknown:  # check() has let it through: the claim is newer than the result
                cases[name] = Untestable(f"made by a command without it: {unknown}")
        confidence = CONFIDENCE if index is None else self.sources[index].confidence
        figures = None if index is None else self.figures[index]
        evaluation = Evaluation(cases, variables, figures, confidence)
        expression = claim.test
        try:
            verdict = evaluation.truth(claim.test.node)
            expression = claim.shown or claim.test
            measured = None if verdict == UNTESTABLE else self._measured(claim, evaluation, confidence)
        except ExpressionError as error:
            key = "test" if expression is claim.test else "shown"
            self.fail(claim, expression.line_at(error.at), f"{key}: {error}")
        trials = tuple(evaluation.trials)
        reasons = dict.fromkeys(t.reason for t in trials if t.verdict == verdict and t.reason)
        found = {name: case for name, case in cases.items() if not isinstance(case, Untestable)}
        return Instance(variables, verdict, "; ".join(reasons) or None, measured, trials, found)

    @staticmethod
    def _measured(claim: Claim, evaluation: Evaluation, confidence: float) -> Measured | None:
        try:
            figure = evaluation.quantity(claim.shown.node) if claim.shown else _first_left(evaluation.trials)
        except Untestable:
            return None
        if figure is None:
            return None
        return Measured(figure.value, *figure.interval(confidence), figure.dimension, claim.unit)


def _first_left(trials: list):
    return next((t.left for t in trials if t.left is not None), None)


def _waiting(claim: Claim) -> str:
    """`waits for suite alloc: ...`, or the reason alone for what will never be tried."""
    if claim.rule == "none" or not claim.suites:
        return claim.untestable
    return f"waits for suite {', '.join(claim.suites)}: {claim.untestable}"


def _suspicions(instances: list) -> list:
    """Reasons of doubt about the cases, but for width: the verdict has that in its interval."""
    out: dict = {}
    for instance in instances:
        for case in instance.cases.values():
            for reason in case.reasons:
                if not reason.startswith("not converged"):
                    out.setdefault(f"suspect: {case.id}: {reason}")
    return list(out)


def verdict_of(judged: Judged) -> str:
    """Over all results: one that fails decides; what holds somewhere and is unclear elsewhere is unclear."""
    return joined([j.verdict for j in judged.judgements])


def counts(judged: list) -> dict:
    """Judgements by verdict: a claim that was tried on two results counts twice."""
    all_of = [j.verdict for item in judged for j in item.judgements]
    return {verdict: all_of.count(verdict) for verdict in VERDICTS}


def exit_code(judged: list, strict: bool) -> int:
    """--strict: 1 if one fails, else 4 if one is inconclusive."""
    found = counts(judged)
    if not strict:
        return 0
    return 1 if found[FAILS] else 4 if found[INCONCLUSIVE] else 0


def read(path, results: list) -> tuple:
    """(claims, sources)."""
    claims = load_claims(path)
    return claims, [Source.read(result) for result in results]


def pick(claims: list, path, wanted: str) -> Claim:
    found = next((claim for claim in claims if claim.id == wanted), None)
    if found is None:
        raise InputProblem(f"{path}: there is no claim {wanted!r}; ids: {', '.join(c.id for c in claims)}")
    return found
