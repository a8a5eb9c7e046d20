"""Table, Markdown, JSON and JUnit XML of a comparison, with names that attack each."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from reports.compare import compare
from reports.compare_output import as_json, junit, markdown, text

import launches


def _attack(save):
    names = [
        'a"b',
        "a,b",
        "=1+1",
        "a|b",
        "<script>x</script>",
        "a`b`",
        "[x](http://x)",
        "@all",
        "a\nb\x1b[31m",
        "中文\ud800",
    ]
    names += ["&amp;]]>", "a'b\\", "a/b_c", "$x$", "\u202etxt"]
    record = launches.result(*(launches.case(n, launches.fixed(1e6)) for n in names))
    return names, save(json.dumps(record), "attack.json")


def test_hostile_names_break_no_output(command, save, tmp_path):
    names, path = _attack(save)
    paths = {form: tmp_path / f"out.{form}" for form in ("markdown", "json", "junit")}
    code, out, _ = command("compare", path, path, *(w for f, p in paths.items() for w in (f"--{f}", p)))
    assert code == 0
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert sum(line.startswith("same ") for line in out.splitlines()) == len(names)

    rows = [r for r in paths["markdown"].read_text(encoding="utf-8").splitlines() if r.startswith("| same ")]
    assert len(rows) == len(names)
    for row in rows:
        cells = row.split("|")
        assert len(cells) == 11
        inner = cells[2].strip().removeprefix("<code>").removesuffix("</code>")
        assert not set(inner) & set("<>`[]()*_@\"'\\$")

    tests = ET.fromstring(paths["junit"].read_text(encoding="utf-8")).findall(".//testcase")
    assert len(tests) == len({t.get("name") for t in tests}) == len(names)
    found = json.loads(paths["json"].read_text(encoding="utf-8"))
    assert sorted(c["id"] for c in found["cases"]) == sorted(names)


def test_json_is_strict_and_whole(sides):
    found = compare(*sides([launches.case("a", [[[5]]])], [launches.case("a", [[[5]]]), launches.failed("b")]))

    def refuse(token):
        raise AssertionError(token)

    record = json.loads(as_json(found, 0), parse_constant=refuse)
    assert record["schema"] == "assay.compare/1"
    assert record["counts"] == found.counts()
    assert record["cases"][1]["low"] is None
    assert record["cases"][1]["budget_launches"] == 6


def test_table_is_aligned_slower_first(sides):
    factors = {"a": 1.0, "b": 1.2, "c": 0.8, "long/name/of/a/case": 1.5}
    times = {n: launches.fixed(1e6 * f) for n, f in factors.items()}
    found = compare(
        *sides(
            [launches.case(n, launches.fixed(1e6)) for n in factors], [launches.case(n, t) for n, t in times.items()]
        )
    )
    assert [r.id for r in found.rows] == ["long/name/of/a/case", "b", "c", "a"]
    lines = text(found).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("verdict"))
    table = lines[start : start + 5]
    assert len({len(line) for line in table}) == 1
    assert table[1].split()[:7] == ["slower", "long/name/of/a/case", "1.000", "ms", "1.500", "ms", "+50.0%"]


def test_junit_fails_what_is_slower_and_errs_what_broke(sides):
    base = [launches.case(n, launches.fixed(1e6)) for n in "abcd"]
    new = [
        launches.case("a", launches.fixed(2e6)),
        launches.failed("b"),
        launches.case("c", [[[1_000_000]]]),
        launches.case("d", launches.fixed(1e6)),
    ]
    found = compare(*sides(base, new))
    suite = ET.fromstring(junit(found)).find("testsuite")
    assert [suite.get(k) for k in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    strict = ET.fromstring(junit(found, strict=True)).find("testsuite")
    assert [strict.get(k) for k in ("tests", "failures", "errors", "skipped")] == ["4", "2", "1", "0"]


def test_markdown_names_counts_and_remarks(sides):
    found = compare(*sides([launches.case("a", [[[5]]])], [launches.case("a", [[[5]]])]))
    page = markdown(found)
    assert "1 inconclusive" in page
    assert "needs 6 launches a side" in page
