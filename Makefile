# dnpipe: `make` builds every program into build/bin; `make help` lists the other targets.
#
# Program names are folder names, so their targets are phony; binaries are build/VARIANT/bin/PROG and build/bin points
# at the default variant's. Our flags are in lower case, yours in CFLAGS/LDFLAGS: `make CFLAGS=-O1` drops none of ours.

programs := $(patsubst %/,%,$(dir $(foreach p,bed2h5 snpmatch gpack dnpredict dnsplit dntrain dncheck,$(wildcard $(p)/$(p).c))))

VARIANT ?= cpu
BLAS    ?= openblas
CC      ?= cc
WERROR  ?=
CFLAGS  ?= -O2 -g
# Commands are shown in short; V=1 shows them whole.
V       ?= 0
quiet   := $(if $(filter 0,$(V)),@)
say      = $(if $(filter 0,$(V)),@printf '  %-5s %s\n' $(1) $(2))

out     := build/$(VARIANT)
pkgs    := hdf5 libzstd libzip yaml-0.1 libxxhash $(BLAS)
cflags  := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
           -Wpointer-arith -fno-strict-aliasing -ffp-contract=off -pthread \
           -Icommon $(foreach p,$(programs),-I$(p)) $(if $(WERROR),-Werror)
ldflags := -pthread
ldlibs  := -lm -ldl

ifeq ($(VARIANT),asan)
  cflags += -O1 -fsanitize=address -fno-omit-frame-pointer
  ldflags += -fsanitize=address
endif
ifeq ($(VARIANT),ubsan)
  cflags += -O1 -fsanitize=undefined -fno-sanitize-recover=undefined
  ldflags += -fsanitize=undefined
endif
ifeq ($(VARIANT),tsan)
  cflags += -O1 -fsanitize=thread
  ldflags += -fsanitize=thread
endif

# Fuzz targets: under libFuzzer in this variant (clang), replayed by a main of their own in every other.
fuzz_main := tests/fuzz/replay.c
ifeq ($(VARIANT),fuzz)
  cflags += -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
  ldflags += -fsanitize=fuzzer,address,undefined
  fuzz_main :=
endif

# Libraries are looked up only by goals that compile, so that `make help` and `make deps` work on a bare machine.
pkg_cflags = $(shell pkg-config --cflags $(pkgs) 2>/dev/null)
pkg_libs   = $(shell pkg-config --libs $(pkgs) 2>/dev/null)

common_src := $(wildcard common/*.c)
common_obj := $(common_src:%.c=$(out)/%.o)
lib        := $(out)/libdn.a
# The part of each program that tests may call: everything but the file with main().
work_src   := $(foreach p,$(programs),$(filter-out $(p)/$(p).c,$(wildcard $(p)/*.c)))
work_obj   := $(work_src:%.c=$(out)/%.o)
main_obj   := $(foreach p,$(programs),$(out)/$(p)/$(p).o)
bins       := $(programs:%=$(out)/bin/%)
unit_src   := $(wildcard tests/unit/test_*.c)
units      := $(unit_src:tests/unit/%.c=$(out)/unit/%)
tool_src   := $(wildcard tests/tools/*.c)
tools      := $(tool_src:tests/tools/%.c=$(out)/tools/%)
fuzz_src   := $(wildcard tests/fuzz/fuzz_*.c)
fuzzers    := $(fuzz_src:tests/fuzz/%.c=$(out)/fuzz/%)
all_obj    := $(common_obj) $(work_obj) $(main_obj) $(unit_src:%.c=$(out)/%.o) $(tool_src:%.c=$(out)/%.o) \
              $(fuzz_src:%.c=$(out)/%.o) $(fuzz_main:%.c=$(out)/%.o)

.DEFAULT_GOAL := all
.PHONY: all tools $(programs) help deps demo check unit bats check-asan check-ubsan check-tsan fuzz bench lint format clean
.DELETE_ON_ERROR:
.SECONDARY: $(all_obj)

all: $(bins) build/bin  ## build every program into build/bin
tools: $(tools)

$(programs): %: $(out)/bin/% build/bin

help:  ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*  ## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

deps:  ## install what is missing (apt, when root), or print the command that does
	@tests/deps.sh

# ---- building ----
# The stamp changes when the flags do, and every object depends on it.
$(out)/flags: FORCE
	@mkdir -p $(@D)
	@for p in $(pkgs); do pkg-config --exists $$p 2>/dev/null || { \
	  echo "make: library '$$p' was not found by pkg-config: run 'make deps' (or: tests/deps.sh --print)" >&2; exit 1; }; done
	@printf '%s\n' '$(CC) $(cflags) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS) $(pkgs)' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:
.PHONY: FORCE

$(out)/%.o: %.c $(out)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(quiet)$(CC) $(cflags) $(pkg_cflags) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(lib): $(common_obj)
	@rm -f $@
	$(call say,AR,$@)
	$(quiet)ar rcs $@ $^

define program_rule
$(out)/bin/$(1): $(patsubst %.c,$(out)/%.o,$(wildcard $(1)/*.c)) $(lib)
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(quiet)$$(CC) $$(ldflags) $$(CFLAGS) $$(LDFLAGS) $$^ $$(pkg_libs) $$(ldlibs) -o $$@
endef
$(foreach p,$(programs),$(eval $(call program_rule,$(p))))

$(out)/unit/%: $(out)/tests/unit/%.o $(work_obj) $(lib)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(quiet)$(CC) $(ldflags) $(CFLAGS) $(LDFLAGS) $^ $(pkg_libs) $(ldlibs) -o $@

$(out)/tools/%: $(out)/tests/tools/%.o $(work_obj) $(lib)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(quiet)$(CC) $(ldflags) $(CFLAGS) $(LDFLAGS) $^ $(pkg_libs) $(ldlibs) -o $@

$(out)/fuzz/%: $(out)/tests/fuzz/%.o $(fuzz_main:%.c=$(out)/%.o) $(work_obj) $(lib)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(quiet)$(CC) $(ldflags) $(CFLAGS) $(LDFLAGS) $^ $(pkg_libs) $(ldlibs) -o $@

build/bin: FORCE
	@mkdir -p build
	@[ "$(VARIANT)" != cpu ] || ln -sfn cpu/bin build/bin

-include $(all_obj:.o=.d)

# ---- testing ----
demo: deps  ## build, then run the whole job on data that is there
	@$(MAKE) --no-print-directory all tools
	@tests/demo.sh

check: deps  ## every test (under 10 minutes on 2 cores)
	@$(MAKE) --no-print-directory all tools
	@tests/run.sh --variant $(VARIANT)

unit: $(units)  ## unit tests alone
	@tests/run.sh --variant $(VARIANT) --unit

fuzzers: $(fuzzers)
build-tests: all tools $(units) fuzzers
.PHONY: build-tests fuzzers

check-asan: deps  ## the tests under AddressSanitizer
	@$(MAKE) --no-print-directory VARIANT=asan build-tests
	@tests/run.sh --variant asan
check-ubsan: deps  ## the tests under UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory VARIANT=ubsan build-tests
	@tests/run.sh --variant ubsan
check-tsan: deps  ## the unit tests and threaded runs under ThreadSanitizer
	@$(MAKE) --no-print-directory VARIANT=tsan build-tests
	@tests/run.sh --variant tsan

fuzz: deps  ## libFuzzer on every reader, FUZZ_SECONDS=60 each (needs clang); FUZZ=plink for one
	@command -v clang >/dev/null || { echo "make: 'make fuzz' needs clang: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }
	@$(MAKE) --no-print-directory VARIANT=fuzz CC=clang fuzzers
	@tests/fuzz/run.sh build/fuzz/fuzz $(FUZZ)

bench: deps  ## measure against the peers, with ratios
	@$(MAKE) --no-print-directory all tools
	@tests/bench.sh

lint:  ## clang-format, cppcheck, shellcheck
	@tests/lint.sh
format:  ## rewrite C files in the house style
	@clang-format -i $(wildcard */*.c */*.h tests/*/*.c tests/*/*.h)

clean:  ## remove build/
	rm -rf build
