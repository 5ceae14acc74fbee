# dnpipe: `make` builds every program into build/bin; `make help` lists the other targets.
#
# Program names are folder names, so their targets are phony; binaries are build/VARIANT/bin/PROG and build/bin points
# at the default variant's. Our flags are in lower case, yours in CFLAGS/LDFLAGS: `make CFLAGS=-O1` drops none of ours.

programs := $(patsubst %/,%,$(dir $(foreach p,bed2h5 snpmatch gpack dnpredict dnsplit dntrain dncheck,$(wildcard $(p)/$(p).c))))

VARIANT ?= cpu
BLAS    ?= openblas
CC      ?= cc
CXX     ?= c++
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
# Both at once, for CI: what either finds fails the tests.
ifeq ($(VARIANT),san)
  cflags += -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
  ldflags += -fsanitize=address,undefined
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

# ---- the GPU: a plugin of its own (common/backend_cuda.h), loaded at run time ----
# CUDA=1 builds it too. Its kernels are made for CUDA_ARCHS, as far as nvcc knows them, and as PTX for newer devices.
CUDA       ?= 0
CUDA_HOME  ?= /usr/local/cuda
CUDA_ARCHS ?= 70 80 90
NVCC       ?= $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) nvcc)
cuda_src   := $(wildcard common/cuda/*.cu)
cuda_known  = $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch 2>/dev/null))
cuda_archs  = $(strip $(foreach a,$(CUDA_ARCHS),$(filter $(a),$(cuda_known))))
cuda_built  = CUDA $(shell $(NVCC) --version 2>&1 | sed -n 's/.*release \([0-9.]*\).*/\1/p'); $(cuda_archs:%=sm_%) and PTX compute_$(lastword $(cuda_archs))
nvccflags   = -std=c++17 -O3 -Icommon -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra $(if $(WERROR),-Werror all-warnings -Xcompiler -Werror) \
              $(foreach a,$(cuda_archs),-gencode arch=compute_$(a),code=sm_$(a)) \
              -gencode arch=compute_$(lastword $(cuda_archs)),code=compute_$(lastword $(cuda_archs)) \
              -DDN_CUDA_MIN_CC=$(firstword $(cuda_archs)) '-DDN_CUDA_BUILT="$(cuda_built)"'
plugin     := $(out)/lib/backend_cuda.so
# What it needs of the library it carries itself: it takes nothing from the program that loads it.
plugin_obj := $(patsubst %.c,$(out)/pic/%.o,common/dn.c common/rng.c common/isa.c)
# The same sources for the host, with tests/shim in the place of CUDA.
cxxflags    = $(filter-out -std=c11 -Wstrict-prototypes -Wmissing-prototypes,$(cflags)) -std=c++17 -fPIC -fvisibility=hidden -Itests/shim
shim       := $(out)/tests/backend_shim.so
shim_obj   := $(cuda_src:%.cu=$(out)/shim/%.o) $(patsubst %.cpp,$(out)/shim/%.o,$(wildcard tests/shim/*.cpp))
cuda_test_src := $(wildcard tests/cuda/test_*.c) $(wildcard tests/cuda/test_*.cpp)
cuda_tests := $(patsubst tests/cuda/%,$(out)/cuda/%,$(basename $(cuda_test_src)))
all_obj    += $(plugin_obj) $(shim_obj) $(cuda_src:%.cu=$(out)/nvcc/%.o) $(patsubst %,$(out)/%.o,$(basename $(cuda_test_src)))

.DEFAULT_GOAL := all
.PHONY: check-slurm check-cuda cuda-tests all tools $(programs) help deps demo check unit bats check-asan check-ubsan check-san check-tsan fuzz bench lint format clean
.DELETE_ON_ERROR:
.SECONDARY: $(all_obj)

all: $(bins) build/bin $(if $(filter 1,$(CUDA)),$(plugin))  ## build every program into build/bin
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

$(out)/pic/%.o: %.c $(out)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(quiet)$(CC) $(cflags) $(pkg_cflags) $(CPPFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

$(out)/nvcc/%.o: %.cu $(out)/nvcc/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(quiet)$(NVCC) $(nvccflags) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(out)/nvcc/flags: FORCE
	@mkdir -p $(@D)
	@test -n '$(cuda_archs)' || { echo "make: CUDA=1 needs nvcc of the CUDA Toolkit (looked for $(NVCC)), and one of the architectures CUDA_ARCHS='$(CUDA_ARCHS)' in nvcc --list-gpu-arch" >&2; exit 1; }
	@printf '%s\n' '$(subst ','"'"',$(NVCC) $(nvccflags))' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(plugin): $(cuda_src:%.cu=$(out)/nvcc/%.o) $(plugin_obj)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(quiet)$(NVCC) -shared -Xlinker --exclude-libs,ALL,-z,defs,-rpath,'$(CUDA_HOME)/lib64' $^ -L'$(CUDA_HOME)/lib64' -lcublas -o $@

$(out)/shim/%.o: %.cu $(out)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(quiet)$(CXX) $(cxxflags) $(CPPFLAGS) $(CFLAGS) -MMD -MP -x c++ -c $< -o $@
$(out)/shim/%.o: %.cpp $(out)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(quiet)$(CXX) $(cxxflags) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
$(shim): $(shim_obj) $(plugin_obj)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(quiet)$(CXX) -shared $(ldflags) $(CFLAGS) $(LDFLAGS) $^ -o $@
$(out)/tests/cuda/%.o: tests/cuda/%.cpp $(out)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(quiet)$(CXX) $(cxxflags) -Itests/unit -Icommon/cuda $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
$(out)/cuda/%: $(out)/tests/cuda/%.o $(shim_obj) $(work_obj) $(lib)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(quiet)$(CXX) $(ldflags) $(CFLAGS) $(LDFLAGS) $^ $(pkg_libs) $(ldlibs) -o $@
$(out)/tests/cuda/%.o: cflags += -Itests/unit -Itests/shim
cuda-tests: $(shim) $(cuda_tests)

build/bin: FORCE
	@mkdir -p build
	@[ "$(VARIANT)" != cpu ] || ln -sfn cpu/bin build/bin

-include $(all_obj:.o=.d)

# ---- testing ----
# These build with all CPUs unless -j was given.
jobs := $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 1))
demo: deps  ## build, then run the whole job on data that is there
	@$(MAKE) $(jobs) --no-print-directory all tools
	@tests/demo.sh

check:  ## every test (under 10 minutes on 2 cores)
	@tests/deps.sh --check
	@$(MAKE) $(jobs) --no-print-directory all tools
	@tests/run.sh --variant $(VARIANT)

unit: $(units)  ## unit tests alone
	@tests/run.sh --variant $(VARIANT) --unit

fuzzers: $(fuzzers)
build-tests: all tools $(units) fuzzers
.PHONY: build-tests fuzzers

check-asan: deps  ## the tests under AddressSanitizer
	@$(MAKE) $(jobs) --no-print-directory VARIANT=asan build-tests
	@tests/run.sh --variant asan
check-ubsan: deps  ## the tests under UndefinedBehaviorSanitizer
	@$(MAKE) $(jobs) --no-print-directory VARIANT=ubsan build-tests
	@tests/run.sh --variant ubsan
check-san: deps  ## the tests under both of these at once
	@$(MAKE) $(jobs) --no-print-directory VARIANT=san build-tests
	@tests/run.sh --variant san
check-tsan: deps  ## the unit tests and threaded runs under ThreadSanitizer
	@$(MAKE) $(jobs) --no-print-directory VARIANT=tsan build-tests
	@BATS_FILTER='[Tt]hreads' tests/run.sh --variant tsan

check-slurm: deps  ## the cluster scripts on a real SLURM that the tests start (root)
	@$(MAKE) $(jobs) --no-print-directory all tools
	@tests/run.sh tests/slurm/*.bats

check-cuda:  ## the GPU's code on the CPU (tests/shim), and nvcc's build of it where there is one
	@tests/deps.sh --cuda
	@$(MAKE) $(jobs) --no-print-directory all tools cuda-tests
	@if $(NVCC) --version >/dev/null 2>&1; then $(MAKE) --no-print-directory CUDA=1 $(plugin) && echo "nvcc: $(plugin) built"; \
	else echo "nvcc was not found: only the host's build of the kernels is checked"; fi
	@tests/cuda/run.sh $(VARIANT)

fuzz: deps  ## libFuzzer on every reader, FUZZ_SECONDS=60 each (needs clang); FUZZ=plink for one
	@command -v clang >/dev/null || { echo "make: 'make fuzz' needs clang: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }
	@$(MAKE) $(jobs) --no-print-directory VARIANT=fuzz CC=clang fuzzers
	@tests/fuzz/run.sh build/fuzz/fuzz $(FUZZ)

bench: deps  ## measure against the peers, with ratios
	@$(MAKE) $(jobs) --no-print-directory all tools
	@tests/bench.sh

lint:  ## clang-format, cppcheck, shellcheck
	@tests/lint.sh
format:  ## rewrite C files in the house style
	@clang-format -i $(wildcard */*.c */*.h tests/*/*.c tests/*/*.h tests/*/*.cpp common/cuda/*)

clean:  ## remove build/
	rm -rf build

# ---- installing ----
PREFIX  ?= /usr/local
DESTDIR ?=
bindir  := $(PREFIX)/bin
libdir  := $(PREFIX)/lib/dnpipe
mandir  := $(PREFIX)/share/man/man1
docdir  := $(PREFIX)/share/doc/dnpipe
bashdir := $(PREFIX)/share/bash-completion/completions
zshdir  := $(PREFIX)/share/zsh/site-functions
manuals := $(programs:%=$(out)/man/%.1)

$(out)/man/%.1: $(out)/bin/% docs/man.sh docs/exit-codes.md
	@mkdir -p $(@D)
	@docs/man.sh $< > $@
$(out)/man/dnpipe.bash $(out)/man/_dnpipe: $(bins) docs/completion.sh
	@mkdir -p $(@D)
	@docs/completion.sh bash $(bins) > $(out)/man/dnpipe.bash
	@docs/completion.sh zsh $(bins) > $(out)/man/_dnpipe

man: $(manuals) $(out)/man/dnpipe.bash  ## manual pages and shell completion, from the programs' --help
install: all man  ## install programs, manuals, completion, documents: PREFIX=/usr/local DESTDIR=
	install -d '$(DESTDIR)$(bindir)' '$(DESTDIR)$(mandir)' '$(DESTDIR)$(docdir)' '$(DESTDIR)$(bashdir)' '$(DESTDIR)$(zshdir)'
	install -m 0755 $(bins) '$(DESTDIR)$(bindir)'
	$(if $(filter 1,$(CUDA)),install -d '$(DESTDIR)$(libdir)' && install -m 0755 $(plugin) '$(DESTDIR)$(libdir)')
	install -m 0644 $(manuals) '$(DESTDIR)$(mandir)'
	install -m 0644 README.md LICENSE docs/*.md '$(DESTDIR)$(docdir)'
	install -m 0644 $(out)/man/_dnpipe '$(DESTDIR)$(zshdir)'
	install -m 0644 $(out)/man/dnpipe.bash '$(DESTDIR)$(bashdir)/dnpipe'
	for p in $(programs); do ln -sf dnpipe '$(DESTDIR)$(bashdir)/'$$p; done
uninstall:  ## remove what install put there
	rm -f $(programs:%='$(DESTDIR)$(bindir)/%') $(programs:%='$(DESTDIR)$(mandir)/%.1') $(programs:%='$(DESTDIR)$(bashdir)/%')
	rm -f '$(DESTDIR)$(bashdir)/dnpipe' '$(DESTDIR)$(zshdir)/_dnpipe'
	rm -rf '$(DESTDIR)$(docdir)' '$(DESTDIR)$(libdir)'
version := $(shell sed -n 's/^.define DN_VERSION *"\(.*\)"/\1/p' common/dn.h)
dist:  ## a source archive of the committed files: build/dnpipe-VERSION.tar.gz
	@mkdir -p build
	git archive --format=tar.gz --prefix=dnpipe-$(version)/ -o build/dnpipe-$(version).tar.gz HEAD
deb:  ## a Debian package, for CPUs: build/dnpipe_VERSION_ARCH.deb
	@tests/deps.sh --deb
	@rm -rf build/deb
	@$(MAKE) --no-print-directory install CUDA=0 PREFIX=/usr DESTDIR='$(CURDIR)/build/deb'
	@docs/deb.sh build/deb build
.PHONY: man install uninstall dist deb

# ---- the two workflows, with files as targets: a second run does only what is stale ----
# make predict BFILE=cohort MODEL=models OUT=predictions.tsv
# make train BFILE=panel LABELS=labels.tsv CONFIG=config.yaml OUT=folder [FOLDS=5 SPLIT_SEED=124 SEEDS=78,23,124]
here := $(CURDIR)/build/bin
ifneq ($(filter predict,$(MAKECMDGOALS)),)
  $(foreach v,BFILE MODEL OUT,$(if $($(v)),,$(error make predict needs BFILE=, MODEL= and OUT=; $(v) is not set)))
  predict_gpk := $(OUT:.tsv=).gpk
  sets := $(foreach e,bed bim fam,$(wildcard $(subst @,*,$(BFILE)).$(e)))
  members := $(wildcard $(MODEL)/*.h5 $(MODEL)/DN_MODELS/* $(MODEL)/DN_SNPS/*) $(if $(wildcard $(MODEL)/.),,$(MODEL))
endif
# -f would also go on below the floor of matched SNPs, so outputs that are stale are removed instead.
$(predict_gpk): $(sets) $(members)
	@rm -f '$@' '$(OUT:.tsv=).report.tsv'
	$(here)/snpmatch --bfile '$(BFILE)' --model '$(MODEL)' --report '$(OUT:.tsv=).report.tsv' -o '$@'
predict: $(OUT)  ## predict a cohort: BFILE= MODEL= OUT=predictions.tsv
ifneq ($(filter predict,$(MAKECMDGOALS)),)
$(OUT): $(predict_gpk) $(members) | all
	@rm -f '$@'
	$(here)/dnpredict --model '$(MODEL)' '$(predict_gpk)' -o '$@'
$(predict_gpk): | all
endif

FOLDS      ?= 5
SPLIT_SEED ?= 124
SEEDS      ?= 78,23,124
comma := ,
ifneq ($(filter train,$(MAKECMDGOALS)),)
  $(foreach v,BFILE LABELS CONFIG OUT,$(if $($(v)),,$(error make train needs BFILE=, LABELS=, CONFIG= and OUT=; $(v) is not set)))
  fold_list := $(shell seq 0 $$(($(FOLDS) - 1)))
  packages := $(foreach f,$(fold_list),$(foreach s,$(subst $(comma), ,$(SEEDS)),$(OUT)/models/seed$(s)_fold$(f).h5))
$(OUT)/dataset.gpk: $(foreach e,bed bim fam,$(wildcard $(subst @,*,$(BFILE)).$(e))) $(LABELS) | all
	@mkdir -p '$(OUT)/models'
	$(here)/gpack --bfile '$(BFILE)' --labels '$(LABELS)' -f -o '$@'
$(OUT)/split.h5: $(OUT)/dataset.gpk
	$(here)/dnsplit '$<' --folds $(FOLDS) --seed $(SPLIT_SEED) -f -o '$@'
define train_rule
$(OUT)/models/seed$(1)_fold$(2).h5: $(OUT)/dataset.gpk $(OUT)/split.h5 $(CONFIG)
	@rm -f '$(OUT)/models/seed$(1)_fold$(2)'.*
	$(here)/dntrain --data '$(OUT)/dataset.gpk' --split '$(OUT)/split.h5' --config '$(CONFIG)' --fold $(2) --seed $(1) -o '$(OUT)/models'
endef
$(foreach f,$(fold_list),$(foreach s,$(subst $(comma), ,$(SEEDS)),$(eval $(call train_rule,$(s),$(f)))))
$(OUT)/check.tsv: $(packages)
	@rm -f '$(OUT)/report.html'
	$(here)/dncheck '$(OUT)/models' --folds 0-$$(($(FOLDS) - 1)) --seeds $(SEEDS) --data '$(OUT)/dataset.gpk' --split '$(OUT)/split.h5' --report '$(OUT)/report.html' > '$@'
	@awk -F'\t' '$$3 == "all" && $$2 ~ /held-out|ensemble/ {print $$2 ": " $$4}' '$@'
endif
train: $(if $(OUT),$(OUT)/check.tsv)  ## train an ensemble: BFILE= LABELS= CONFIG= OUT=folder [FOLDS= SEEDS=]
.PHONY: predict train
