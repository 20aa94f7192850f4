#!/usr/bin/env bash
# Compiles a workload of tests/programs if it is not up to date, and prints where it is.
#   program.sh NAME
source "$(dirname "$0")/lib.sh"
source=tests/programs/${1:?which program}.c
built=$target_dir/test-programs/$1
if [ ! -x "$built" ] || [ -n "$(find "$source" tests/programs/*.h -newer "$built")" ]; then
    mkdir -p "${built%/*}"
    gcc -std=c11 -O2 -Wall -Wextra -Werror -pthread -o "$built.$$" "$source" -lm
    mv "$built.$$" "$built"
fi
echo "$built"
