"""Text of claims files, and one way to judge them, for the tests of `assay claims`."""

from __future__ import annotations

import json

from conftest import GPU

HEAD = '[[claim]]\nid = "c"\nclaim = "It is so."\nclaimed = "1"\nsource = "own"\n'
TILED = 'select.new = { suite = "matmul", variant = "tiled32", device = "cuda", n = 1024 }\n'
NAIVE = 'select.old = { suite = "matmul", variant = "naive", device = "cuda", n = 1024 }\n'
EACH = (TILED + NAIVE).replace("n = 1024", 'n = "$n"')


def claim(test="speedup(new, old) > 1", rule="direction", select=TILED + NAIVE, more=""):
    return f"{HEAD}rule = {rule!r}\ntest = {test!r}\n{more}{select}"


def judged(command, save, text, *arguments, results=(GPU,)):
    """(exit code, parsed JSON) of a claims file on results."""
    code, out, err = command("claims", save(text, "claims.toml"), *results, "--format", "json", *arguments)
    assert not err, err
    return code, json.loads(out)


def verdict(command, save, text, results=(GPU,)):
    return judged(command, save, text, results=results)[1]["claims"][0]["verdict"]
