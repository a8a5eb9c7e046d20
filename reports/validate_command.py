"""The command line of `assay validate`."""

from __future__ import annotations

import sys

NEEDS = ("scipy", "jsonschema")


def add_parser(commands):
    validate = commands.add_parser("validate", help="check files against the schema and recompute what is derived")
    validate.add_argument("results", nargs="+", metavar="RESULT", help="assay.result/1 file, .json or .json.gz")
    return validate


def run(args) -> int:
    from .validate import validate_files

    return validate_files(args.results, sys.stdout)
