# SPDX-License-Identifier: Apache-2.0
# Packages for others: a source tarball, and Debian's.

TARBALL := $(BUILD)/weft-$(VERSION).tar.gz

#: dist          $(BUILD)/weft-VERSION.tar.gz, of the files that git tracks
.PHONY: dist
dist:
	$(Q)mk/dist.sh $(VERSION) $(TARBALL)

#: deb           Debian packages in $(BUILD)/deb/: library, headers, tools, debug symbols; check-deb: tries them in a fresh system
.PHONY: deb check-deb
deb:
	$(Q)tests/scripts/deps.sh build deb
	$(Q)$(MAKE) --no-print-directory dist
	$(Q)mk/deb.sh $(VERSION) $(ABI_VERSION) $(TARBALL) $(BUILD)/deb

# As root, and with a mirror that apt-get reaches: it installs a system in a folder.
check-deb: deb
	$(Q)tests/scripts/deps.sh check-deb
	$(Q)BUILD=$(BUILD) tests/scripts/check-deb.sh

# The transports between hosts that this build has: bindings/torch asks.
.PHONY: print-fabrics
print-fabrics:
	@echo $(call have,verbs ofi)
