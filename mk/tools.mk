# SPDX-License-Identifier: Apache-2.0
# The tools: weft-plan, weft-perf, weft-topo.

PERF_OBJECTS := $(call objects,$(wildcard perf/*.c perf/device/*.c))
TOPO_OBJECTS := $(call objects,$(wildcard topo/tool/*.c))
PLAN_OBJECTS := $(call objects,algos/proof/weft-plan.c)
TOOL_OBJECTS := $(PERF_OBJECTS) $(TOPO_OBJECTS) $(PLAN_OBJECTS) $(TOOLS_LIB_OBJECTS)
PROGRAMS := $(addprefix $(BUILD)/,weft-plan weft-perf weft-topo)

#: tools         weft-plan, weft-perf, weft-topo
.PHONY: tools
tools: $(PROGRAMS)

$(PERF_OBJECTS) $(TOPO_OBJECTS): | need-jansson
$(BUILD)/weft-plan: $(PLAN_OBJECTS)
$(BUILD)/weft-perf: $(PERF_OBJECTS)
$(BUILD)/weft-topo: $(TOPO_OBJECTS)
$(BUILD)/weft-perf $(BUILD)/weft-topo: TOOL_LIBS := $(LIBS_jansson)
$(PROGRAMS): $(ARCHIVES)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(filter %.o,$^) $(filter %.a,$^) $(LIBS) $(TOOL_LIBS) -o $@

# One line each, by tabs: the library's file, who loads it (library, tools), found or absent here, what for.
#: print-runtime-libs    the libraries that are loaded at run time
.PHONY: print-runtime-libs
print-runtime-libs: $(BUILD)/weft-plan
	@$(BUILD)/weft-plan --version | awk 'NR > 1 { text = $$4; for (i = 5; i <= NF; i++) text = text " " $$i; print $$1 "\t" $$3 "\t" $$2 "\t" text }'
