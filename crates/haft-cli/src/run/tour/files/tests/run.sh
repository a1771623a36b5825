#!/bin/sh
# Checks src/count.sh; ends with 1 if it counts wrong.
expected=4
found=$(sh src/count.sh data/tides.txt)
if [ "$found" = "$expected" ]; then
    echo "ok: $found lines"
else
    echo "wrong: $found lines, expected $expected"
    exit 1
fi
