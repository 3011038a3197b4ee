#!/bin/bash
# Compares the sum that the agent wrote with the one that is wanted.
if [ "$(cat /app/sum.txt)" = "$WANTED" ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
