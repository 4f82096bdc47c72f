# SPDX-License-Identifier: Apache-2.0
# Installing: the library with its headers alone, or with tools and man pages.

MANPAGES = $(wildcard docs/man/*.[0-9])

# Below the prefix by its variable, so that pkg-config --define-prefix finds what has been moved.
below_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))
define PC_FILE
prefix=$(PREFIX)
libdir=$(call below_prefix,$(LIBDIR))
includedir=$(call below_prefix,$(INCLUDEDIR))

Name: weft
Description: Collectives between ranks over shared memory, RDMA, TCP and libfabric
Version: $(VERSION)
Cflags: -I$${includedir}
Libs: -L$${libdir} -lweft
Libs.private: $(PRIVATE_LIBS)
endef
export PC_FILE

#: install, uninstall    with DESTDIR, PREFIX, BINDIR, LIBDIR, INCLUDEDIR, MANDIR; install-lib: without the tools
.PHONY: install install-lib uninstall
install: all install-lib
	$(Q)install -d $(DESTDIR)$(BINDIR)
	$(Q)for f in $(PROGRAMS); do install -m 755 $$f $(DESTDIR)$(BINDIR)/ || exit 1; done
	$(Q)for f in $(MANPAGES); do install -D -m 644 $$f $(DESTDIR)$(MANDIR)/man$${f##*.}/$${f##*/} || exit 1; done
	@echo "weft: programs are in $(DESTDIR)$(BINDIR), the library in $(DESTDIR)$(LIBDIR), man pages in $(DESTDIR)$(MANDIR)"

install-lib: lib
	$(Q)install -d $(DESTDIR)$(INCLUDEDIR)/weft $(DESTDIR)$(LIBDIR)/pkgconfig
	$(Q)install -m 644 include/weft/*.h $(DESTDIR)$(INCLUDEDIR)/weft/
	$(Q)install -m 644 $(BUILD)/libweft.a $(DESTDIR)$(LIBDIR)/
	$(Q)install -m 755 $(BUILD)/libweft.so.$(VERSION) $(DESTDIR)$(LIBDIR)/
	$(Q)ln -sf libweft.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	$(Q)ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libweft.so
	$(Q)printf '%s\n' "$$PC_FILE" >$(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc
# The loader's cache: a folder that it searches, /usr/local/lib, serves only after that. Who is not root uses LD_LIBRARY_PATH.
	$(Q)[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || PATH=$$PATH:/sbin:/usr/sbin ldconfig 2>/dev/null || true

uninstall:
	$(Q)rm -f $(addprefix $(DESTDIR)$(INCLUDEDIR)/weft/,$(notdir $(wildcard include/weft/*.h)))
	$(Q)rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,libweft.a libweft.so $(SONAME) libweft.so.$(VERSION) pkgconfig/weft.pc)
	$(Q)rm -f $(addprefix $(DESTDIR)$(BINDIR)/,$(notdir $(PROGRAMS)))
	$(Q)rm -f $(foreach page,$(MANPAGES),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	$(Q)rmdir $(DESTDIR)$(INCLUDEDIR)/weft 2>/dev/null || true

#: print-libs    what a program linked with libweft.a needs beside it
.PHONY: print-libs
print-libs:
	@echo $(PRIVATE_LIBS)

# One line each, by tabs: the library's file, who loads it (library, tools), what packages say of it
# (recommends, suggests), found or absent here, what for.
#: print-runtime-libs    the libraries that are loaded at run time
.PHONY: print-runtime-libs
print-runtime-libs:
	@$(MAKE) --no-print-directory $(BUILD)/weft-plan >&2
	@$(BUILD)/weft-plan --version | awk 'NR > 1 { text = $$5; for (i = 6; i <= NF; i++) text = text " " $$i; print $$1 "\t" $$3 "\t" $$4 "\t" $$2 "\t" text }'
