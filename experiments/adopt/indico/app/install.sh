#!/bin/sh
# Prepares the database once; started again, it finds it prepared.
set -eu
python /extensions.py
python /prepared.py || indico db prepare
python /install.py
