"""Reads assay.result/1 files: report, validate and compare. It knows the JSON and nothing else."""

SCHEMA = "assay.result/1"
