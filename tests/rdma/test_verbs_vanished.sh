#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three machines with a rank each; the plug of the third is pulled in the middle of allreduces and messages. The others'
# calls name rank and host long before the device reports anything, and go on without it.
# hosts: 3
set -u
. tests/support/rounds.sh
if [[ $WEFT_VM_HOST == 0 ]]; then
    (until [[ -e $WEFT_VM_SHARE/going ]]; do sleep 0.1; done && : >"$WEFT_VM_SHARE/unplug.2") &
fi
# A busy host must not make the emulated ones look dead: many times the default.
RANK=$WEFT_VM_HOST WORLD_SIZE=3 MASTER_ADDR=10.7.0.1 WEFT_PORT=21000 WEFT_SECRET_FILE=$work/secret \
    WEFT_HEARTBEAT_MS=15000 timeout 150 "$rounds" 10 2 "$WEFT_VM_SHARE/going"
