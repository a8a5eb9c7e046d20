"""Reads assay.result/1 files: report and validate. It knows the JSON and nothing else."""

SCHEMA = "assay.result/1"
