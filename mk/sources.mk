# SPDX-License-Identifier: Apache-2.0
# Which source belongs where follows from its folder. What a single program needs beside that is said in its source, in one of the
# first lines, and there alone:
#
#   /* build: with tests/fakes/verbs/; wrap calloc; needs verbs; beside device-sim drivers */
#
#   with FILE.c ...       linked too; FOLDER/ is all sources in it
#   wrap SYMBOL ...       the linker's --wrap; @FILE: options from a file
#   libs NAME ...         libraries (jansson, ibverbs, as mk/depends.mk calls them)
#   needs PART ...        not built where a part is left out: verbs, ofi, pmix, cuda, ze, spirv, hwloc
#   beside NAME ...       built before, since it is loaded at run time: device-sim, drivers, plugins, provider
#   also TARGET           belongs to another target's programs too: rdma
#   alone                 linked with the C library alone
#   injected              the library's calls outwards go through the fault injector (tests/faults/inject.h)
ALL_TEST_SOURCES := $(wildcard tests/*/*.c tests/*/*/*.c)
BUILD_LINES := $(shell awk ' \
	/^\/\* build: .* \*\/$$/ { \
		sub(/^\/\* build: /, ""); sub(/ \*\/$$/, ""); file = FILENAME; sub(/\.c$$/, "", file); \
		rules = split($$0, rule, /; */); \
		for (r = 1; r <= rules; r++) { \
			words = split(rule[r], word, / +/); \
			if (word[1] !~ /^(with|wrap|libs|needs|beside|also|alone|injected)$$/) print "ERROR_IN:=" FILENAME; \
			if (words == 1) print "BUILD_" word[1] "_" file ":=yes"; \
			for (w = 2; w <= words; w++) print "BUILD_" word[1] "_" file "+=" word[w] \
		} \
	} \
	FNR == 5 { nextfile }' $(ALL_TEST_SOURCES) $(wildcard perf/micro/*.c) /dev/null)
$(foreach line,$(BUILD_LINES),$(eval $(line)))
$(if $(ERROR_IN),$(error weft: $(ERROR_IN): a word in its line "build:" that mk/sources.mk does not know))

objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
programs = $(patsubst %.c,$(BUILD)/%,$(1))
# Of sources, those that can be built with the parts that this build has.
buildable = $(foreach source,$(1),$(if $(filter-out $(HAVE),$(BUILD_needs_$(source:.c=))),,$(source)))
# What lines say of a program, which is named without .c.
with_of = $(foreach name,$(BUILD_with_$(1)),$(if $(filter %/,$(name)),$(wildcard $(name)*.c),$(wildcard $(name))))
wraps_of = $(foreach name,$(BUILD_wrap_$(1)),$(if $(filter @%,$(name)),-Wl$(comma)$(name),-Wl$(comma)--wrap=$(name)))
libs_of = $(foreach name,$(BUILD_libs_$(1)),$(LIBS_$(name)))
beside_of = $(foreach name,$(BUILD_beside_$(1)),$(BESIDE_$(name)))
# Prerequisites and a program's end of the line, for rules with secondary expansion.
linked_of = $(call objects,$(call with_of,$(1)) $(if $(BUILD_injected_$(1)),$(INJECTOR))) $(patsubst @%,%,$(filter @%,$(BUILD_wrap_$(1))))
archives_of = $(if $(BUILD_injected_$(1)),$(FAULT_ARCHIVES),$(ARCHIVES))
