# SPDX-License-Identifier: Apache-2.0
# The tools: weft-plan, weft-perf, weft-topo.

PERF_OBJECTS := $(call objects,$(wildcard perf/*.c perf/device/*.c))
TOPO_OBJECTS := $(call objects,$(wildcard topo/tool/*.c))
PLAN_OBJECTS := $(call objects,$(wildcard algos/proof/weft-plan*.c))
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
$(BUILD)/weft-perf: $(BUILD)/libweft-tools.a $(BUILD)/weft-whole.o
$(BUILD)/weft-plan $(BUILD)/weft-topo: $(ARCHIVES)
$(PROGRAMS):
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(filter %.o,$^) $(filter %.a,$^) $(TOOLS_LIBS) $(TOOL_LIBS) -o $@
