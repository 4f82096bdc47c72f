# SPDX-License-Identifier: Apache-2.0
# What may be chosen on the command line, and the flags that follow from it.

ifeq ($(origin CC),default)
CC := gcc
endif
PKG_CONFIG ?= pkg-config
BUILD ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
O ?= -O2 -g
MODE_FLAGS ?=
WERROR ?= 0
# Tests are linked without debug information, which stays in the objects: each program would carry all of the library's, and two
# hundred of them fill a disk. TEST_LINK= keeps it.
TEST_LINK ?= -Wl,-S
OPTIONS := CC BUILD PREFIX BINDIR LIBDIR INCLUDEDIR MANDIR O WERROR

#= V=1 shows commands. CFLAGS, CPPFLAGS and LDFLAGS are added to those of the build. WERROR=1 makes warnings errors; check and the
#= sanitizers set it. WITH_...=auto takes what is found, yes fails where it is missing, no leaves it out.

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla $(if $(filter 1,$(WERROR)),-Werror)
# Targets are written as $(BUILD)/..., so that they are the same whether the folder was named from the root or not.
DEPENDS = -MMD -MP -MT '$$(BUILD)/$(patsubst $(BUILD)/%,%,$@)'
CPPFLAGS_ALL = -D_GNU_SOURCE -I. -Iinclude $(DEPENDS) $(DEPEND_CFLAGS) $(CPPFLAGS)
CFLAGS_BUILD = -std=c11 $(O) -fPIC -fvisibility=hidden -ffp-contract=off
CFLAGS_ALL = $(CFLAGS_BUILD) $(WARN) $(MODE_FLAGS) $(CFLAGS) $(if $(filter no,$(WITH_LTO)),-fno-lto)
LDFLAGS_ALL = $(MODE_FLAGS) $(LDFLAGS)
Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1)	$(2)";)
comma := ,

# Targets that people ask for build with every processor, unless -j is given.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null))
# Such a target first installs what is missing, then reads all of this again, which finds it.
again = $(MAKE) $(JOBS) --no-print-directory
