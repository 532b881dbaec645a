#!/bin/bash
# Starts redis as the user redis, with flags or a configuration file alone also meaning redis-server.
set -euo pipefail

if [[ "${1:-}" == -* || "${1:-}" == *.conf ]]; then
    set -- redis-server "$@"
fi
if [[ "${1:-}" == redis-server ]]; then
    # The official image's build has protected mode off; a setting of the user's, on the line or in a file, goes first.
    chosen=no
    if [[ "$*" == *--protected-mode* ]]; then chosen=yes; fi
    if [[ "${2:-}" == *.conf ]] && grep -qE '^\s*protected-mode\s' "$2"; then chosen=yes; fi
    if [[ $chosen == no ]]; then set -- "$@" --protected-mode no; fi
    if [[ "$(id -u)" == 0 ]]; then
        find . \! -user redis -exec chown redis '{}' +
        exec setpriv --reuid=redis --regid=redis --init-groups "$@"
    fi
fi
exec "$@"
