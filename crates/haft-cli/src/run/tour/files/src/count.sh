#!/bin/sh
# Prints how many lines a file has.
count=0
while read -r line; do
    count=$((count + 1))
done < "$1"
echo "$count"
