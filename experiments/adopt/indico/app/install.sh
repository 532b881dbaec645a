#!/bin/sh
set -eu
python /extensions.py
indico db prepare
python /install.py
