#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a script in as many machines as it asks for: tests/vm/hosts.sh SCRIPT
set -u
unset TEST_RUNNER TEST_LOGS # tests/run.sh inside has its own
asked() { sed -n "s/^# $1: \([0-9]*\).*/\1/p" "$2" | head -n 1; }
hosts=$(asked hosts "$1") seconds=$(asked timeout "$1")
((${hosts:-0} == 0)) && exec "$1"
limit=${TEST_TIMEOUT:-1200}
((${seconds:-0} > limit)) && limit=$seconds
# A little less than tests/run.sh gives it: the message of the inner limit names the hosts that are late.
exec "$(dirname "$0")/run.sh" --hosts "$hosts" --timeout $((limit - 10)) "$(dirname "$0")/resources.sh" "$1"
