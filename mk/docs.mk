# SPDX-License-Identifier: Apache-2.0
# What documents take from the code. It is committed, so that installing needs no fresh binary; check_docs.sh compares.

#: docs          docs/settings.md and ENVIRONMENT of weft(7), from base/settings.c
.PHONY: docs
docs: $(BUILD)/weft-perf
	$(Q)BUILD=$(BUILD) tests/scripts/docs.sh
