# SPDX-License-Identifier: Apache-2.0
# Packages.

# The transports between hosts that this build has: bindings/torch asks.
.PHONY: print-fabrics
print-fabrics:
	@echo $(call have,verbs ofi)
