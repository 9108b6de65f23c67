#!/usr/bin/env bash
# Make function.zip: the handler, and the library without boto3, which Lambda has.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv pip install --quiet --no-deps --target "$folder" ../../packages/zae-limiter-core
cp handler.py "$folder"
python -m zipfile -c function.zip "$folder"/*
