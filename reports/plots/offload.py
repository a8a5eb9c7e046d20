"""When does the GPU pay? Time on the CPU and on a GPU by size, and where the curves cross."""

from __future__ import annotations

from .. import labels
from .. import series as pick
from ..crossover import Crossover, crossover
from ..load import Result
from ..units import significant
from .figure import Drawing
from .lines import lines_figure

SENTENCES = {
    "always": "finding_offload_always",
    "never": "finding_offload_never",
    "falls": "finding_offload_falls",
}


def _fastest(cases: list) -> dict:
    """Size to the fastest case of that size."""
    out = {}
    for case in cases:
        n = labels.whole(case.parameters.get("n"))
        if n and (n not in out or case.metrics["time"].value < out[n].metrics["time"].value):
            out[n] = case
    return out


def _line(label: str, cases: dict) -> pick.Line:
    sizes = sorted(cases)
    return pick.Line(label, sizes, [cases[n] for n in sizes], [cases[n].metrics["time"] for n in sizes])


def draw(result: Result, cases: list, t) -> Drawing | None:
    """One panel for each operation and GPU with two sizes or more on either side."""
    panels, parts = [], []
    for operation in dict.fromkeys(c.variant for c in cases):
        own = [c for c in cases if c.variant == operation]
        host = _fastest([c for c in own if c.kind == "cpu"])
        for device in dict.fromkeys(c.device for c in own if c.kind != "cpu"):
            lines = [_line(t("offload.cpu"), host)] if host else []
            for transfers in ("no", "yes"):
                there = _fastest([c for c in own if c.device == device and c.parameters.get("transfers") == transfers])
                if not there:
                    continue
                lines.append(_line(t("transfers." + transfers), there))
                times = [{n: c.metrics["time"] for n, c in side.items()} for side in (host, there)]
                words = {"operation": operation, "device": device, "how": t("transfers." + transfers)}
                parts.append(_sentence(crossover(*times), words, t))
            if max((len(line.x) for line in lines), default=0) > 1:
                panels.append(_panel(result, device, operation, lines, t))
    return Drawing(" ".join(parts), lambda width: lines_figure(panels, width, t)) if panels else None


def _panel(result: Result, device: str, operation: str, lines: list, t) -> pick.Panel:
    model = labels.device_model(result, device)
    return pick.Panel(device, model, "", "offload", "time", "ns", lines, [], t("what.offload", operation=operation))


def _sentence(found: Crossover, words: dict, t) -> str:
    if found.kind == "crosses":
        size = {k: significant(v, 3) if v else None for k, v in (("low", found.low), ("high", found.high))}
        low = size["low"] or t("offload.below", n=significant(found.first, 3))
        high = size["high"] or t("offload.above", n=significant(found.last, 3))
        return t("finding_offload_crosses", value=significant(found.value, 3), low=low, high=high, **words)
    if found.kind == "none":
        if not found.gains:
            return t("finding_offload_apart", **words)
        n, gain = found.gains[0]
        return t("finding_offload_one", n=f"{n:.7g}", gain=significant(gain, 3), **words)
    return t(
        SENTENCES[found.kind],
        first=f"{found.first:.7g}",
        last=f"{found.last:.7g}",
        gain=significant(found.gains[-1][1], 3),
        **words,
    )
