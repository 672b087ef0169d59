# agent-cage: the words of everyday work. The build itself is Meson's (meson.build).
#
#   make           build build/agent-cage
#   make up        install what is needed, build, and start the fleet with a pod agent `demo` and a terminal chat
#   make test      install what is needed and run the whole test ladder
#   make bench     the table of docs/performance.md, measured on this machine
#   make install   binary, manual pages, completion, systemd unit (DESTDIR and PREFIX as usual)
#   make uninstall takes those away; with PURGE=1 also the fleet's accounts, uid ranges, configuration and state
#
# `make up`, `make test` and `make install` want root: run them through sudo.

PREFIX ?= /usr/local
DESTDIR ?=
BUILD := build
BINARY := $(BUILD)/agent-cage

all: build-deps $(BINARY)

$(BUILD)/build.ninja:
	@meson setup $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@mv $(BUILD).log $(BUILD)/setup.log

# Ninja knows better than make whether something is stale, and is quick to say so. The binary alone: who starts a fleet waits for
# no test, and scripts/test builds what it runs.
$(BINARY): $(BUILD)/build.ninja .FORCE
	@scripts/build $(BUILD) agent-cage

build-deps:
	@scripts/deps build

deps:
	@scripts/deps run build test node

up:
	@scripts/deps run build
	@$(MAKE) --no-print-directory $(BINARY)
	@exec $(BINARY) up --demo

test:
	@scripts/deps run build test node
	@scripts/test all

# One rung of the ladder: make test-unit, test-link, test-e2e, test-fault, test-fuzz, test-break, …
test-%:
	@scripts/deps run build test node
	@scripts/test $*

# Takes every protection of a sealed cage away, one at a time (about a quarter of an hour).
break-mutations: deps $(BINARY)
	@scripts/build $(BUILD)
	@MUTATIONS=all node tests/e2e/lib/run.mjs $(addprefix tests/break/,mutations.mjs sessions.mjs net.mjs)

bench: $(BINARY)
	@scripts/deps run build test node
	@scripts/bench

check:
	@scripts/check-tree
	@scripts/check-format
	@scripts/links-doc --check

fmt:
	@scripts/check-format --fix
	@scripts/links-doc

install: $(BINARY)
	@scripts/install "$(DESTDIR)" "$(PREFIX)" $(BINARY)

uninstall:
	@scripts/uninstall "$(DESTDIR)" "$(PREFIX)"

clean:
	rm -rf $(BUILD) build-*

.FORCE:
.PHONY: all break-mutations build-deps deps up test bench check fmt install uninstall clean .FORCE
