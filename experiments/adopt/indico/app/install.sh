#!/bin/sh
set -eu
indico db prepare
python /install.py
