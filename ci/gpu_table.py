"""Prints a short table of a result: the best case of each suite, variant and kind of copy on a GPU."""

import json
import pathlib
import sys

# The metric that tells most, first match: name, factor and unit for people, which direction is better.
RATES = [
    ("flop_rate", 1e-12, "TFLOP/s", max),
    ("bandwidth", 1e-9, "GB/s", max),
    ("time_per_item", 1e-3, "us each", min),
    ("time", 1e-3, "us", min),
]


def figure(case):
    metrics = {metric["name"]: metric["value"] for metric in case["metrics"]}
    for name, factor, unit, better in RATES:
        if metrics.get(name) is not None:
            return metrics[name] * factor, unit, better
    return None


def rows(result):
    best = {}
    for case in result["cases"]:
        found = figure(case)
        if case["device"]["kind"] != "cuda" or case["status"] != "done" or found is None:
            continue
        parameters = case["parameters"]
        key = (case["suite"], case["variant"], parameters.get("dir"), parameters.get("memory"))
        value, unit, better = found
        if key not in best or (unit == best[key][1] and better(value, best[key][0]) == value):
            best[key] = (value, unit, case)
    for value, unit, case in best.values():
        fraction = case["ceiling"]["fraction"]
        share = "" if fraction is None else f"{100 * fraction:.0f}%"
        yield case["id"], f"{value:.4g} {unit}", share, case["validity"]["status"]


def main():
    result = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    table = [("case", "figure", "of limit", "validity"), *rows(result)]
    widths = [max(len(row[column]) for row in table) for column in range(4)]
    for row in table:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())
    if len(table) == 1:
        sys.exit(f"{sys.argv[1]} holds no finished GPU case")


if __name__ == "__main__":
    main()
