"""The command line of `assay report`."""

from __future__ import annotations

NEEDS = ("numpy", "scipy", "matplotlib", "jinja2")


def add_parser(commands):
    report = commands.add_parser("report", help="one HTML page with plots; several results are compared side by side")
    report.add_argument("results", nargs="+", metavar="RESULT", help="assay.result/1 file, .json or .json.gz")
    report.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for report.html and plots/")
    report.add_argument("--lang", choices=("en", "zh"), default="en", help="language of texts and plots (default en)")
    report.add_argument(
        "--prices",
        metavar="FILE",
        help="what each machine costs an hour (TOML, docs/prices.toml): adds the cost of a million tokens",
    )
    return report


def run(args) -> int:
    from .report import write_report

    print(write_report(args.results, args.output, args.lang, args.prices))
    return 0
