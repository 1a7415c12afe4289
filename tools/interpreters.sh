#!/bin/sh
# Which Python interpreters of this machine can be used, found by running them: a name on PATH may be a shim that only
# says what to install, and a distribution's Python may lack ensurepip.
#
#   interpreters.sh main     the one to use: $PYTHON, else a 3.11, else python3, else any supported one
#   interpreters.sh others   one of each other supported version, a line each
set -eu

supported="3.10 3.11 3.12 3.13"

# Prints "VERSION PATH" when the interpreter $1 runs, is new enough and can make environments.
probe() {
    "$1" -c '
import ensurepip, sys, venv
if sys.version_info < (3, 10):
    sys.exit(1)
print("%d.%d" % sys.version_info[:2], sys.executable)' 2>/dev/null || true
}

# Prints every place where a Python of version $1 may be.
places() {
    old_ifs=$IFS
    IFS=:
    for folder in $PATH; do
        echo "$folder/python$1"
    done
    IFS=$old_ifs
    home=${HOME:-/}
    for folder in "${PYENV_ROOT:-$home/.pyenv}/versions/$1".* /usr/local /opt/python"$1" "$home/.local"; do
        echo "$folder/bin/python$1"
    done
}

first_of_version() {
    places "$1" | while read -r path; do
        if [ -x "$path" ]; then
            found=$(probe "$path")
            if [ -n "$found" ]; then
                echo "$found"
                break
            fi
        fi
    done
}

main() {
    if [ -n "${PYTHON:-}" ]; then
        found=$(probe "$PYTHON")
        if [ -z "$found" ]; then
            echo "interpreters.sh: PYTHON=$PYTHON is no Python >= 3.10 with venv and ensurepip" >&2
            exit 1
        fi
        echo "$found"
        return
    fi
    for version in 3.11 python3 3.12 3.13 3.10; do
        if [ "$version" = python3 ]; then
            found=$(probe python3)
        else
            found=$(first_of_version "$version")
        fi
        if [ -n "$found" ]; then
            echo "$found"
            return
        fi
    done
    echo "interpreters.sh: no Python >= 3.10 with venv and ensurepip found; install one or set PYTHON" >&2
    exit 1
}

case "${1:-}" in
main)
    found=$(main)
    echo "${found#* }"
    ;;
others)
    found=$(main)
    for version in $supported; do
        if [ "$version" != "${found%% *}" ]; then
            other=$(first_of_version "$version")
            if [ -n "$other" ]; then
                echo "${other#* }"
            fi
        fi
    done
    ;;
*)
    echo "usage: interpreters.sh main|others" >&2
    exit 2
    ;;
esac
