# meadow: one Makefile for everything; run from the top folder.
#
#   make                     libraries and programs into build/
#   make V=1                 shows the commands           make BUILD=DIR   builds elsewhere
#   make SAN=address,undefined   sanitizers (into build-asan/)
#   make CC=clang            another compiler             make WERROR=1    warnings are errors
#
# Sources are found by wildcard: a new .c file in a known folder, or a new test_*.c, needs no edit here.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

SAN    ?=
BUILD  ?= $(if $(SAN),build-asan,build)
PREFIX ?= /usr
V      ?= 0
WERROR ?= 0
JOBS   ?= 2

# --- compiler and flags --------------------------------------------------------------------------

ifeq ($(origin CC),default)
CC := gcc
endif
AR      ?= ar
CCACHE  ?= $(shell command -v ccache 2>/dev/null)
COMPILE  = $(CCACHE) $(CC)
Q        = $(if $(filter 1,$(V)),,@)
say      = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)';)

OPT      ?= -O2 -g
WARN     := -Wall -Wextra -Wshadow -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes \
            -Wwrite-strings -Wundef -Wimplicit-fallthrough -fno-common
HARDEN   := -fstack-protector-strong -fstack-clash-protection -fPIE
HARDEN_LD := -pie -Wl,-z,relro,-z,now
ifneq ($(SAN),)
# FORTIFY hides overflows from ASan, so a sanitizer build goes without it.
HARDEN   += -fsanitize=$(SAN) -fno-sanitize-recover=undefined -fno-omit-frame-pointer -U_FORTIFY_SOURCE
HARDEN_LD += -fsanitize=$(SAN)
else
HARDEN   += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif

# clang sees uthash's switch as ours and misses its fall-through comments; gcc does that check.
ifneq ($(findstring clang,$(CC)),)
WARN     += -Wno-implicit-fallthrough
else
# Texts for people are cut on purpose, by snprintf.
WARN     += -Wno-format-truncation
endif

PKGS     := libuv hiredis libmicrohttpd jansson openssl libsystemd libcurl yaml-0.1
LINTS_ONLY := clean format lint lint-scripts help
ifneq ($(filter-out $(LINTS_ONLY),$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell pkg-config --exists $(PKGS) 2>/dev/null && echo yes),yes)
ifeq ($(filter demo check check-fast,$(MAKECMDGOALS)),)
$(error build dependencies are missing: run deploy/deps.sh (deploy/deps.sh --check lists them))
endif
endif
endif
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lpthread -ldl -lm
CHECK_LIBS  = $(shell pkg-config --libs check)

BASE_CFLAGS := -std=gnu17 -D_GNU_SOURCE -I. $(WARN)
ALL_CFLAGS   = $(BASE_CFLAGS) $(OPT) $(HARDEN) $(PKG_CFLAGS) $(CFLAGS)
ERR_CFLAGS   = $(if $(filter 1,$(WERROR)),-Werror)
ALL_LDFLAGS  = $(HARDEN_LD) -Wl,--as-needed $(LDFLAGS)

# --- what there is -------------------------------------------------------------------------------

tree = $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c)
objs = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

COMMON_SRC := $(call tree,common)
PROTO_SRC  := $(call tree,proto)
MASTER_SRC := $(filter-out master/main.c,$(call tree,master))
AGENT_SRC  := $(filter-out node-agent/main.c node-agent/init/%,$(call tree,node-agent))
CLI_SRC    := $(filter-out cli/main.c,$(call tree,cli))
INIT_SRC   := $(wildcard node-agent/init/*.c)
TESTSTUB_SRC := $(wildcard test/lib/*_stub.c) # shared libraries, built by the tests that need them
TESTLIB_SRC := $(filter-out $(TESTSTUB_SRC),$(wildcard test/lib/*.c))

UNIT_SRC   := $(wildcard test/unit/*/test_*.c test/unit/*/*/test_*.c)
BENCH_SRC  := $(wildcard test/bench/*.c)
SIM_SRC    := $(wildcard test/sim/*.c)
SIM_LIB    := $(wildcard test/sim/lib/*.c)
SWARM_SRC  := $(wildcard test/sim/swarm/*.c)
FUZZ_SRC   := $(wildcard test/fuzz/fuzz_*.c)

lib = $(BUILD)/lib/lib$(1).a
LIBS := $(foreach l,common proto master agent cli,$(call lib,$(l)))
BINS := $(if $(wildcard cli/main.c),$(BUILD)/bin/meadow) \
        $(if $(wildcard master/main.c),$(BUILD)/bin/meadow-master) \
        $(if $(wildcard node-agent/main.c),$(BUILD)/bin/meadow-agent) \
        $(if $(wildcard node-agent/init/main.c),$(BUILD)/bin/meadow-init)
UNIT_BINS  := $(patsubst test/unit/%.c,$(BUILD)/test/%,$(UNIT_SRC))
BENCH_BINS := $(patsubst test/bench/%.c,$(BUILD)/bench/%,$(BENCH_SRC))
SIM_BINS   := $(patsubst test/sim/%.c,$(BUILD)/sim/%,$(SIM_SRC))
SWARM      := $(BUILD)/sim/swarm

.PHONY: chaos skew swarm all libs bins unit-bins bench-bins sim-bins check check-fast unit demo install asan fuzz \
        fuzz-bins fuzz-merge bench bench-scheduler sim replay lint lint-scripts tidy cppcheck format clean deb help print-%
all: libs bins $(SWARM)
libs: $(LIBS)
bins: $(BINS)
unit-bins: $(UNIT_BINS)
bench-bins: $(BENCH_BINS)
sim-bins: $(SIM_BINS)

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile
	@echo 'targets: all check check-fast unit demo install asan fuzz bench bench-scheduler replay swarm sim lint format deb clean'

print-%:
	@printf '%s\n' '$($*)'

# --- objects and libraries -----------------------------------------------------------------------

# Rewritten only when compiler or flags change, so that a switch rebuilds and nothing else does.
FLAGS_NOW = $(CC) $(ALL_CFLAGS) | $(ALL_LDFLAGS)
$(BUILD)/.flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(FLAGS_NOW)' | cmp -s - $@ || printf '%s\n' '$(FLAGS_NOW)' > $@
FORCE:

$(BUILD)/obj/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) $(ALL_CFLAGS) $(ERR_CFLAGS) -MMD -MP -c -o $@ $<

define library
$(call lib,$(1)): $(call objs,$(2))
	@mkdir -p $$(@D)
	$$(call say,AR,$$@)rm -f $$@ && $(AR) rcs $$@ $$(filter %.o,$$^)
endef
$(eval $(call library,common,$(COMMON_SRC)))
$(eval $(call library,proto,$(PROTO_SRC)))
$(eval $(call library,master,$(MASTER_SRC)))
$(eval $(call library,agent,$(AGENT_SRC)))
$(eval $(call library,cli,$(CLI_SRC)))
$(eval $(call library,init,$(filter-out %/main.c,$(INIT_SRC))))
$(eval $(call library,testlib,$(TESTLIB_SRC)))
$(eval $(call library,sim,$(SIM_LIB)))

# --- programs ------------------------------------------------------------------------------------

link = $(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) \
       -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(PKG_LIBS)

$(BUILD)/bin/meadow: $(call objs,cli/main.c) $(call lib,cli) $(call lib,proto) $(call lib,common)
	@mkdir -p $(@D)
	$(link)
$(BUILD)/bin/meadow-master: $(call objs,master/main.c) $(call lib,master) $(call lib,proto) $(call lib,common)
	@mkdir -p $(@D)
	$(link)
$(BUILD)/bin/meadow-agent: $(call objs,node-agent/main.c) $(call lib,agent) $(call lib,proto) $(call lib,common)
	@mkdir -p $(@D)
	$(link)

# Master and agent of another protocol version: `make skew PROTOCOL=2` makes them into build/skew/2/bin.
ifneq ($(PROTOCOL),)
SKEW := $(BUILD)/skew/$(PROTOCOL)
SKEW_SRC := $(shell grep -l MEADOW_PROTOCOL proto/*.c master/*/*.c node-agent/*.c)
skew_objs = $(patsubst %.c,$(SKEW)/obj/%.o,$(filter proto/% $(1)/%,$(SKEW_SRC)))
$(SKEW)/obj/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,CC,$< (protocol $(PROTOCOL)))$(COMPILE) $(ALL_CFLAGS) $(ERR_CFLAGS) -DMEADOW_PROTOCOL=$(PROTOCOL) -MMD -MP -c -o $@ $<
$(SKEW)/bin/meadow-master: $(call objs,master/main.c) $(call skew_objs,master) $(call lib,master) $(call lib,proto) $(call lib,common)
	@mkdir -p $(@D)
	$(link)
$(SKEW)/bin/meadow-agent: $(call objs,node-agent/main.c) $(call skew_objs,node-agent) $(call lib,agent) $(call lib,proto) $(call lib,common)
	@mkdir -p $(@D)
	$(link)
skew: $(SKEW)/bin/meadow-master $(SKEW)/bin/meadow-agent bins
	@ln -sf ../../../bin/meadow-init $(SKEW)/bin/
endif

# meadow-init runs inside other people's images: static, small, libc only, never with sanitizers.
INIT_CFLAGS := $(BASE_CFLAGS) -Os -g -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong \
               -ffunction-sections -fdata-sections -fno-pie
INIT_OBJ := $(patsubst %.c,$(BUILD)/obj-init/%.o,$(INIT_SRC))
$(BUILD)/obj-init/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,CC,$< (static))$(COMPILE) $(INIT_CFLAGS) $(ERR_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/bin/meadow-init: $(INIT_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@ (static))$(CC) -static -Wl,--gc-sections -Wl,-z,relro,-z,now -o $@ $^

# --- tests ---------------------------------------------------------------------------------------

# A test of common/ links common/ only, one of master/ also proto/, and so on: a test cannot reach sideways,
# and master and agent may both have, say, a config_load().
archives = $(foreach l,$(1),$(call lib,$(l)))
LIBS_common := $(call archives,testlib common)
LIBS_proto  := $(call archives,testlib proto common)
LIBS_master := $(call archives,testlib master proto common)
LIBS_agent  := $(call archives,testlib agent init proto common)
LIBS_cli    := $(call archives,testlib cli proto common)
LIBS_sim    := $(call archives,testlib sim master proto common)
LIBS_every  := $(call archives,testlib master cli agent init proto common)
test_link = $(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) \
            -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(CHECK_LIBS) $(PKG_LIBS)

define unit_rule
$(BUILD)/test/$(1)/%: $(BUILD)/obj/test/unit/$(1)/%.o $(2)
	@mkdir -p $$(@D)
	$$(test_link)
endef
UNIT_DIRS := $(patsubst test/unit/%/,%,$(sort $(dir $(UNIT_SRC))))
# test/unit/scheduler belongs to master/scheduler, and so on.
first_dir = $(firstword $(subst /, ,$(1)))
kind_of = $(or $(if $(wildcard master/$(first_dir)/.),master),$(if $(wildcard node-agent/$(first_dir)/.),agent),$(patsubst node-agent,agent,$(first_dir)))
$(foreach d,$(UNIT_DIRS),$(eval $(call unit_rule,$(d),$(or $(LIBS_$(call kind_of,$(d))),$(LIBS_every)))))

$(BUILD)/bench/%: $(BUILD)/obj/test/bench/%.o $(LIBS_every)
	@mkdir -p $(@D)
	$(test_link)
$(BUILD)/sim/%: $(BUILD)/obj/test/sim/%.o $(LIBS_sim)
	@mkdir -p $(@D)
	$(test_link)
# Thousands of agents in one process.
$(SWARM): $(call objs,$(SWARM_SRC)) $(call archives,proto common)
	@mkdir -p $(@D)
	$(link)

# "make unit ONLY=common/test_strbuf" runs one.
ONLY ?=
unit: $(if $(ONLY),$(addprefix $(BUILD)/test/,$(ONLY)),$(UNIT_BINS)) $(filter %/meadow-init,$(BINS))
	$(Q)MEADOW_BIN=$(CURDIR)/$(BUILD)/bin test/run-unit.sh $(filter $(BUILD)/test/%,$^)

check:
	$(Q)test/check.sh
check-fast:
	$(Q)test/check.sh --fast

# "make chaos SEED=7 MINUTES=5"; FENCE=off must be found.
SEED ?= 1
MINUTES ?= 5
FENCE ?= on
chaos: all
	$(Q)MEADOW_BIN=$(CURDIR)/$(BUILD)/bin test/chaos/chaos.py --seed $(SEED) --minutes $(MINUTES) --fence $(FENCE)
# A master under simulated agents, in figures: "make swarm NODES=5000 TASKS=20" (of each node).
NODES ?= 5000
TASKS ?= 20
swarm: all
	$(Q)MEADOW_BIN=$(CURDIR)/$(BUILD)/bin NODES=$(NODES) TASKS=$(TASKS) /usr/bin/python3 test/bench/run.py scale
asan:
	$(Q)$(MAKE) --no-print-directory SAN=address,undefined all unit

sim: $(SIM_BINS)
	$(Q)for s in $(SIM_BINS); do echo "== $$s"; $$s || exit 1; done
# Public traces (OpenB, Philly, Gavel, Tiresias) that are not part of this; their folders below TRACES.
TRACES ?= ../shared/data/traces
replay: $(SIM_BINS)
	$(Q)TRACES='$(TRACES)' SIM=$(BUILD)/sim test/sim/replay.sh
bench: all $(BENCH_BINS)
	$(Q)for b in $(BENCH_BINS); do echo "== $$b"; MEADOW_BIN=$(CURDIR)/$(BUILD)/bin $$b || exit 1; done
	$(Q)for b in test/bench/run.py; do echo "== $$b"; \
	  MEADOW_BIN=$(CURDIR)/$(BUILD)/bin /usr/bin/python3 $$b || exit 1; done
bench-scheduler: $(filter %scheduler,$(BENCH_BINS))
	$(Q)test -n '$^' || { echo 'bench-scheduler: there is no test/bench/*scheduler.c'; exit 1; }
	$(Q)$(firstword $^)

# --- fuzzers: clang's libFuzzer, in a build folder of their own ----------------------------------

FUZZ_BUILD  := build-fuzz
# "make fuzz" runs each for SECONDS (or RUNS inputs); "make fuzz FUZZ=http RUNS=1000000" one of them.
FUZZ        ?=
RUNS        ?=
SECONDS     ?= 20
FUZZ_ALL    := $(patsubst test/fuzz/%.c,%,$(FUZZ_SRC))
FUZZ_NAMES  := $(if $(FUZZ),$(patsubst %,fuzz_%,$(patsubst fuzz_%,%,$(FUZZ))),$(FUZZ_ALL))
fuzz-bins:
	$(Q)$(MAKE) --no-print-directory BUILD=$(FUZZ_BUILD) CC=clang SAN=fuzzer-no-link,address,undefined \
	  $(addprefix $(FUZZ_BUILD)/fuzz/,$(FUZZ_NAMES))
$(BUILD)/fuzz/%: $(BUILD)/obj/test/fuzz/%.o $(LIBS_every)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) \
	  -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(PKG_LIBS)
# New inputs go to the build folder; the seeds of test/fuzz/corpus/NAME are only read.
fuzz: fuzz-bins
	$(Q)FUZZ_BUILD=$(FUZZ_BUILD) RUNS='$(RUNS)' SECONDS_EACH='$(SECONDS)' test/fuzz/run.sh $(FUZZ_NAMES)
# What was found in the build folder, made small, replaces the seeds.
fuzz-merge: fuzz-bins
	$(Q)FUZZ_BUILD=$(FUZZ_BUILD) test/fuzz/run.sh --merge $(FUZZ_NAMES)

# --- style ---------------------------------------------------------------------------------------

OUR_C := $(COMMON_SRC) $(PROTO_SRC) $(MASTER_SRC) $(AGENT_SRC) $(CLI_SRC) $(INIT_SRC) \
         $(wildcard master/main.c node-agent/main.c cli/main.c)
OUR_TESTS := $(UNIT_SRC) $(TESTLIB_SRC) $(TESTSTUB_SRC) $(BENCH_SRC) $(SIM_SRC) $(SIM_LIB) $(SWARM_SRC) $(FUZZ_SRC)
OUR_H := $(foreach d,common proto master node-agent cli test,$(wildcard $(d)/*.h $(d)/*/*.h $(d)/*/*/*.h))
# uthash's hash function, unrolled at every lookup, is what an analyzer would spend its time on.
TIDY_FLAGS = $(filter-out -W%,$(BASE_CFLAGS)) $(PKG_CFLAGS) -DHASH_FUNCTION(k,l,h)=((h)=(unsigned)(l)+!(k))

lint:
	$(Q)test/lint/run.sh
lint-scripts:
	$(Q)test/lint/run.sh --scripts
format:
	$(Q)clang-format -i $(OUR_C) $(OUR_TESTS) $(OUR_H)

# --- install, packages ---------------------------------------------------------------------------

BINDIR  := $(DESTDIR)$(PREFIX)/bin
LIBDIR  := $(DESTDIR)$(PREFIX)/lib
MANDIR  := $(DESTDIR)$(PREFIX)/share/man
DOCDIR  := $(DESTDIR)$(PREFIX)/share/doc/meadow
SYSCONFDIR ?= /etc
ETCDIR  := $(DESTDIR)$(SYSCONFDIR)/meadow
unit_paths := s|@BINDIR@|$(PREFIX)/bin|g; s|@SYSCONFDIR@|$(SYSCONFDIR)|g
# A configuration that is there stays; the samples say the defaults alone.
install: all
	$(Q)install -d $(BINDIR) $(LIBDIR)/meadow $(LIBDIR)/systemd/system $(LIBDIR)/sysusers.d $(DOCDIR) $(ETCDIR)
	$(Q)install -m 755 $(filter-out %/meadow-init,$(BINS)) $(BINDIR)/
	$(Q)install -m 755 $(filter %/meadow-init,$(BINS)) $(LIBDIR)/meadow/
	$(Q)install -m 755 deploy/sealed-curl $(BINDIR)/meadow-sealed-curl
	$(Q)for u in systemd/*.service; do \
	  sed '$(unit_paths)' $$u | install -m 644 /dev/stdin $(LIBDIR)/systemd/system/$${u##*/} || exit 1; done
	$(Q)install -m 644 systemd/meadow.sysusers $(LIBDIR)/sysusers.d/meadow.conf
	$(Q)install -m 644 LICENSE $(wildcard README.md deploy/*.sample docs/*.md) $(DOCDIR)/
	$(Q)for c in $(wildcard deploy/*.yml.sample); do t=$${c##*/}; t=$(ETCDIR)/$${t%.sample}; \
	  [ -e $$t ] || install -m 640 $$c $$t || exit 1; done
	$(Q)for m in $(wildcard docs/man/*.[1-8]); do \
	  install -D -m 644 $$m $(MANDIR)/man$${m##*.}/$${m##*/} || exit 1; done
	$(Q)[ -n '$(DESTDIR)' ] || SYSCONFDIR='$(SYSCONFDIR)' deploy/after-install.sh
deb: all
	$(Q)deploy/deb.sh $(BUILD)

clean:
	$(Q)rm -rf $(BUILD) build-asan $(FUZZ_BUILD)

# Objects are kept, and each one's header dependencies are read back.
.SECONDARY:
DEPS := $(wildcard $(patsubst %.c,$(BUILD)/obj/%.d,$(OUR_C) $(OUR_TESTS)) $(INIT_OBJ:.o=.d) \
          $(SKEW_SRC:%.c=$(SKEW)/obj/%.d))
-include $(DEPS)
