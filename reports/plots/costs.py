"""What it costs to get memory: one bar for each way and size."""

from __future__ import annotations

from .. import labels
from ..load import Result
from ..units import binary, quantity
from .bars import Bar, BarPanel, Group, bars_figure
from .figure import Drawing


def draw(result: Result, cases: list, t) -> Drawing | None:
    """Time of one allocation with its release, cheapest first within a size."""
    panels, parts = [], []
    fallback = labels.defaults(result, "alloc")
    for device in [d["name"] for d in result.context["devices"]]:
        own = [c for c in cases if c.device == device and "time_per_item" in c.metrics]
        if len(own) < 2:
            continue
        own.sort(key=lambda c: (labels.whole(c.parameters.get("bytes")) or 0, c.metrics["time_per_item"].value))
        groups = {}
        for case in own:
            groups.setdefault(binary(labels.whole(case.parameters.get("bytes")) or 0), []).append(
                _bar(case, fallback, t)
            )
        title = f"{device}: {labels.device_model(result, device)}"
        panels.append(BarPanel(title, [Group(k, bars) for k, bars in groups.items()], t("axis.alloc"), "ns", log=True))
        low, high = (f(own, key=lambda c: c.metrics["time_per_item"].value) for f in (min, max))
        parts.append(
            t(
                "finding_alloc",
                device=device,
                low=_named(low, fallback, t),
                low_value=quantity(low.metrics["time_per_item"].value, "ns", 3),
                high=_named(high, fallback, t),
                high_value=quantity(high.metrics["time_per_item"].value, "ns", 3),
            )
        )
    return Drawing(" ".join(parts), lambda width: bars_figure(panels, width)) if panels else None


def _words(case, fallback: dict, skip: tuple, t) -> str:
    shown = {k: v for k, v in case.parameters.items() if k not in skip and str(v) != fallback.get(k)}
    return ", ".join([case.variant, *(labels.parameter(k, v, t) for k, v in shown.items())])


def _named(case, fallback: dict, t) -> str:
    return _words(case, fallback, (), t)


def _bar(case, fallback: dict, t) -> Bar:
    metric = case.metrics["time_per_item"]
    text = quantity(metric.value, metric.unit, 3)
    if case.validity != "valid":
        text += f" ({t.or_raw('validity', case.validity)})"
    return Bar(_words(case, fallback, ("bytes",), t), metric.value, text, metric.low, metric.high)
