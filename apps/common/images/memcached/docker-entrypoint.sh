#!/bin/sh
# Flags alone mean memcached with these flags.
set -eu

case "${1:-}" in
    -*) set -- memcached "$@" ;;
esac
exec "$@"
