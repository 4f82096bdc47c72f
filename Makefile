# SPDX-License-Identifier: Apache-2.0
# weft: build, test, install. `make help` lists the targets and the options. The parts are in mk/.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

MAKE_PARTS := mk/config.mk mk/depends.mk mk/sources.mk mk/library.mk mk/tools.mk mk/tests.mk mk/check.mk mk/perf.mk mk/docs.mk mk/install.mk \
	mk/package.mk
include $(MAKE_PARTS)

#: all           the library and the tools, in $(BUILD)/
.PHONY: all
all: lib tools

#: clean         remove $(BUILD)/
.PHONY: clean
clean:
	rm -rf $(BUILD)

# Lines that begin with `#:` beside the rules.
#: help          this list
.PHONY: help
help:
	@echo "Targets:"
	@sed -n 's/^#: //p' Makefile $(MAKE_PARTS) | sed 's|[$$](BUILD)|$(BUILD)|g'
	@echo "Options, with what they are now:"
	@$(foreach option,$(OPTIONS),printf '%-14s%s\n' '$(option)' '$($(option))';)
	@sed -n 's/^#= //p' Makefile $(MAKE_PARTS)

# What the compiler has found that each object depends on.
-include $(patsubst %.o,%.d,$(sort $(LIB_OBJECTS) $(WHOLE_OBJECTS) $(TOOL_OBJECTS) $(TEST_OBJECTS)))
