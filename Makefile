# `make` lists the targets; `make test` must pass before a merge. CONTRIBUTING.md explains
# the tiers.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Run the steps one at a time, quick ones first: each uses all cores by itself.
.NOTPARALLEL:

GO ?= go
FUZZTIME ?= 30s
GOLANGCI_VERSION := v2.15.0
GOLANGCI := .deps/bin/golangci-lint-$(GOLANGCI_VERSION)

# RELEASES are the ZooKeeper releases for make versions. By default it runs all of
# .ci/releases.txt and the upgrade.
RELEASES ?=
OLDEST := 3.5.10
NEWEST := $(shell tail -n 1 .ci/releases.txt)

FIGURES := .deps/figures.jsonl

# Build the library and bench as users get them: without go.work.
export GOWORK := off

# -trimpath lets clones in different folders share the build cache.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

# bench is a separate module, so that the compared libraries never enter a user's go.sum.
BENCH := $(wildcard bench/go.mod)

# make test skips bench's own tests while its code is unchanged since the last make
# test-all.
BENCH_CHANGED = $(and $(BENCH),$(or $(filter 1,$(ZKGRANT_FULL)),$(shell .ci/since 'bench/*.go' 'bench/go.*' && echo changed)))

# MODULES are the other modules. go.work builds them with this library, so one go command
# can handle all of them.
MODULES := $(patsubst %/go.mod,%,$(wildcard cmd/*/go.mod coordinator/telemetry/*/go.mod coordinator/bridge/*/go.mod session/sasl/*/go.mod))
in-modules = GOWORK='$(CURDIR)/go.work' $(1) $(MODULES:%=./%/...)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: ## what must pass before a change is merged: five minutes on two idle cores, eight the first time
	@ZKGRANT_REAL=1 ZKGRANT_TURN=$${ZKGRANT_TURN-$$(git rev-parse HEAD 2>/dev/null)} MAKE='$(MAKE)' .ci/steps test fetch check meters tests newest race mutants interop

.PHONY: test-all
test-all: ## everything at full length, in about an hour: before an issue is closed
	@ZKGRANT_REAL=1 ZKGRANT_FULL=1 MAKE='$(MAKE)' .ci/steps test-all fetch build vet platforms lint meters tests race oldest-newest mutants interop kills flakes
	@git diff --quiet HEAD && git rev-parse HEAD >.ci/last-full && echo 'test-all: commit .ci/last-full, so that make test leaves out what has not changed since'

.PHONY: fetch
fetch: deps ## fetch what the tests need; go itself fetches the modules
ifneq ($(BENCH),)
	bench/deps $(if $(BENCH_CHANGED),,curator writelock kazoo prometheus)
endif

.PHONY: deps
deps: ## make Java and ZooKeeper available for the tests that need real servers
	@.ci/deps

.PHONY: build
build: ## compile everything, including the examples and bench
	$(GO) build -o /dev/null ./...
ifneq ($(BENCH),)
	cd bench && $(GO) build -o /dev/null ./...
endif
	$(call in-modules,$(GO) build -o /dev/null)

.PHONY: vet
vet: ## go vet with 32-bit ints; lint does it with 64-bit ints, and the test steps skip it
	GOARCH=386 $(GO) vet ./...

# PURE are the packages that run wherever Go does, and the in-process server.
PURE := ./events ./recipes/... ./session/internal/... ./session/zktest

.PHONY: platforms
platforms: ## test the pure packages with 32-bit ints; compile everything for arm64; vet the library and compile the command for Windows and macOS
	GOARCH=386 ZKGRANT_REAL= ZKGRANT_FULL= $(GO) test -vet=off -count=1 -timeout 20m -skip '^TestReal' $(PURE)
	GOARCH=arm64 $(GO) build -o /dev/null ./...
	GOARCH=arm64 $(call in-modules,$(GO) build -o /dev/null)
	GOOS=windows $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=windows GOWORK='$(CURDIR)/go.work' $(GO) build -o /dev/null ./cmd/zkgrant
	GOOS=darwin GOARCH=arm64 GOWORK='$(CURDIR)/go.work' $(GO) build -o /dev/null ./cmd/zkgrant

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint on all modules, built from source on the first run
	$(call in-modules,$(GOLANGCI) run --allow-parallel-runners ./...) $(BENCH:%/go.mod=./%/...)

# Building golangci-lint takes more CPU time than everything that make test compiles.
.PHONY: check
check: ## make lint if golangci-lint is already built
ifneq ($(wildcard $(GOLANGCI)),)
	@$(MAKE) --no-print-directory lint
else
	@echo 'check: left out: golangci-lint is not built; make lint builds it, and .ci/run and make test-all run it'
endif

.PHONY: meters
meters: ## how many functions and files a lock passes through, and the lines of each room; never fails
	-@GOGC=400 $(GO) run ./coordinator/reliability/meters

# The version is part of the file name, so a new version is a new file.
$(GOLANGCI):
	@echo 'lint: building golangci-lint $(GOLANGCI_VERSION), which takes a minute or two, once'
	GOBIN='$(CURDIR)/.deps/bin' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv .deps/bin/golangci-lint $@

# RACED are the packages with their own goroutines, except the one that starts real
# servers. The race detector makes their tests several times slower. So make test runs all
# of them without it and, in turns, one in three with it; make test-all runs all of them
# with it. The other packages have no goroutines: the explorer is pure.
#
# MANY are coordinator's tests with up to 100,000 locks, for which the detector needs too
# much memory. UNRACED are the tests that it slows most, those with real servers or with
# many locks and lost frames. They run under it only at full length.
#
# GOGC=400: the clients' large buffers keep the collector busy, and compilers take a sixth
# less CPU time with it. There is enough memory. -count=1: Go's test cache does not know
# what a server has answered.
FULL := $(filter 1,$(ZKGRANT_FULL))
RACED = ./coordinator ./actors/... $$($(GO) list ./session/... | grep -v '/zktest/ensemble$$') ./coordinator/reliability/schedules
MANY := HandoffDoesNotWaitForABurst|CloseOfManyLocks|ATryInAnOutage|ShareAListing
UNRACED := $(if $(FULL),,^TestReal|ShareAListing|WhichOfManyIsGone|AnAnswerToManyThatIsLost|WhateverFrameIsLost)
APART := ./coordinator/reliability/mutants

.PHONY: tests
tests: ## the tests without the race detector; at full length (ZKGRANT_FULL=1) except those that run under it
	GOGC=400 $(GO) test -vet=off -shuffle=on -count=1 -timeout 60m $$(comm -23 <($(GO) list ./... | sort) <($(GO) list $(APART) $(if $(FULL),$(filter-out %/schedules,$(RACED))) | sort))
ifneq ($(FULL),)
	GOGC=400 $(GO) test -vet=off -count=1 -timeout 60m -run '$(MANY)' ./coordinator
endif
	$(call in-modules,$(GO) test -vet=off -shuffle=on -count=1 -timeout 60m) $(if $(BENCH_CHANGED),$$($(GO) -C bench list ./... | grep -v '/interop$$'))

.PHONY: race
race: ## the tests under the race detector: one in three, in turns; at full length all of them
	GOGC=400 GO='$(GO)' .ci/race -vet=off -shuffle=on -count=1 -timeout 60m -run="$$(.ci/turn 3 $$($(GO) list -f '{{.Dir}}' $(RACED)))" $(if $(UNRACED),-skip='$(UNRACED)') $(RACED)

.PHONY: mutants
mutants: ## check that tests find the seeded bugs that a change touches; at full length, every bug with each of its tests
	GOGC=400 ZKGRANT_REAL= ZKGRANT_FULL= ZKGRANT_TURN= ZKGRANT_MUTANTS=$(if $(filter 1,$(ZKGRANT_FULL)),every,$(or $(shell .ci/since),1)) $(GO) test -count=1 -v -timeout 60m -run 'TestEverySeededBugIsFound' ./coordinator/reliability/mutants | grep --line-buffered -avE '^ *(=== |--- PASS|mutants_test.go:[0-9]+: .* after [0-9.]+m?s$$)'

.PHONY: kills
kills: ## the kill matrix, .deps/kills.txt: which tests find which seeded bug; six minutes on two idle cores
	@mkdir -p .deps
	GOGC=400 ZKGRANT_REAL= ZKGRANT_FULL= ZKGRANT_KILLS='$(CURDIR)/.deps/kills.txt' $(GO) test -count=1 -v -timeout 60m -run TestKillMatrix ./coordinator/reliability/mutants | grep --line-buffered -avE '^ *(=== |--- PASS)'

.PHONY: flakes
flakes: ## run the changed tests 30 times next to two busy loops, for at most ten minutes
	GO='$(GO)' .ci/flakes

.PHONY: interop
interop: ## share one queue with the locks of other libraries: Curator, go-zookeeper, kazoo, WriteLock
ifneq ($(BENCH),)
	cd bench && GOGC=400 ZKGRANT_REAL=1 $(GO) test -shuffle=on -count=1 -timeout 60m -parallel 4 -skip '^TestNeighbours$$' ./interop
endif

.PHONY: versions
versions: deps ## test real servers of several releases, fetched from Maven: locks, faults of three servers, an upgrade; an hour; RELEASES=3.9.5 for some
	@GO='$(GO)' .ci/versions $(RELEASES)

.PHONY: neighbours
neighbours: deps ## releases of other libraries in one queue with zkgrant, on releases of ZooKeeper; RELEASES=3.9.5 for some
ifneq ($(BENCH),)
	bench/deps
	@GO='$(GO)' PARTS=neighbours .ci/versions $(RELEASES)
endif

.PHONY: oldest-newest
oldest-newest: ## the conformance script and the locks, on the oldest supported release and on the newest
	@GO='$(GO)' PARTS='conformance locks' .ci/versions $(OLDEST) $(NEWEST)

# Quick, but runs only if the release was fetched already.
.PHONY: newest
newest: ## a smoke test of the newest release of ZooKeeper, if make versions has fetched it
ifneq ($(wildcard .deps/releases/$(NEWEST)),)
	ZOOKEEPER_HOME='$(CURDIR)/.deps/releases/$(NEWEST)' $(GO) test -vet=off -count=1 -timeout 10m -run '^TestReal(Smoke|OnTheServersThereAre)$$' ./coordinator
else
	@echo 'newest: ZooKeeper $(NEWEST) is left out: make versions fetches it'
endif

.PHONY: explore
explore: ## every interleaving of a few clients, at full length
	ZKGRANT_FULL=1 $(GO) test -count=1 -timeout 60m -v -run Explore ./recipes/...

.PHONY: schedules
schedules: ## ten thousand random schedules of faults
	ZKGRANT_FULL=1 $(GO) test -count=1 -timeout 60m -v -run Schedules ./coordinator/reliability/schedules

.PHONY: soak
soak: ## random schedules until stopped
	ZKGRANT_SOAK=1 $(GO) test -count=1 -timeout 0 -v -run Schedules ./coordinator/reliability/schedules

.PHONY: reliability
reliability: deps ## measure the promises at full length and print the figures; takes a while, and needs an idle machine
	@mkdir -p $(dir $(FIGURES)) && rm -f $(FIGURES)
	@status=0; \
	ZKGRANT_REAL=1 ZKGRANT_RELIABILITY=1 ZKGRANT_FIGURES='$(CURDIR)/$(FIGURES)' \
		$(GO) test -count=1 -p 1 -timeout 60m -v $(addprefix ./coordinator/reliability/,schedules faults histories) || status=$$?; \
	$(GO) run ./coordinator/reliability/table $(FIGURES); \
	exit $$status

.PHONY: timeline
timeline: ## measure and draw the timeline of a partition: Curator, go-zookeeper, zkgrant
	bench/deps
	cd bench && $(GO) run ./timeline

.PHONY: bench
bench: ## measure the locks of five libraries side by side; half an hour, and needs an idle machine
	bench/deps
	cd bench && $(GO) run ./locks

.PHONY: bench-distance
bench-distance: ## measure only the part about distance, in five minutes; the other results are kept
	bench/deps
	cd bench && $(GO) run ./locks -distance

.PHONY: bench-cached
bench-cached: ## measure only the part about cached locks, in six minutes; the other results are kept
	bench/deps
	cd bench && $(GO) run ./locks -cached

.PHONY: bench-quick
bench-quick: ## a shorter bench, in less than five minutes; the results go to bench/quick
	bench/deps
	mkdir -p bench/quick
	cd bench && $(GO) run ./locks -quick -o quick

.PHONY: bench-crowd
bench-crowd: ## 1,000 sessions with a lock each on three servers, in eight minutes; needs an idle machine
	bench/deps
	cd bench && $(GO) run ./crowd

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@for package in $$($(GO) list ./...); do \
		listed=$$($(GO) test -list '^Fuzz' "$$package"); \
		for target in $$(grep '^Fuzz' <<<"$$listed" || true); do \
			echo "fuzz: $$target of $$package"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"; \
		done; \
	done

.PHONY: quickstart
quickstart: ## run the first example, on the server inside the program
	$(GO) run ./examples/quickstart

.PHONY: clean
clean: ## remove what make fetched and built
	rm -rf .deps
