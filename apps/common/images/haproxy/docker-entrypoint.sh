#!/bin/sh
# Flags alone mean haproxy with these flags; haproxy runs as master and worker in the foreground.
set -eu

case "${1:-}" in
    -*) set -- haproxy "$@" ;;
esac
if [ "${1:-}" = haproxy ]; then
    shift
    set -- haproxy -W -db "$@"
fi
exec "$@"
