#!/bin/bash
awk '{ sum += $1 } END { print sum }' data/numbers.txt >sum.txt
