# `make` explains itself; `make test` is what has to pass. CONTRIBUTING.md explains the tiers.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The steps are ordered from quick to slow, and each uses all cores by itself.
.NOTPARALLEL:

GO ?= go
FUZZTIME ?= 30s
GOLANGCI_VERSION := v2.15.0
GOLANGCI := .deps/bin/golangci-lint-$(GOLANGCI_VERSION)

# RELEASES of ZooKeeper that make versions runs; without it all of .ci/releases.txt, and the upgrade.
RELEASES ?=
OLDEST := 3.5.10
NEWEST := $(shell tail -n 1 .ci/releases.txt)

FIGURES := .deps/figures.jsonl

# The library and bench are built as users get them: without go.work.
export GOWORK := off

# The same source is compiled once, whatever folder a clone is in.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

# bench is its own module, so that the compared libraries never enter a user's go.sum.
BENCH := $(wildcard bench/go.mod)

# Its own tests are left out of make test as long as its code is what make test-all has tested.
BENCH_CHANGED = $(and $(BENCH),$(or $(filter 1,$(ZKGRANT_FULL)),$(shell .ci/since 'bench/*.go' 'bench/go.*' && echo changed)))

# MODULES are the other modules. go.work builds them with this library, and one go command takes all of them.
MODULES := $(patsubst %/go.mod,%,$(wildcard cmd/*/go.mod coordinator/telemetry/*/go.mod coordinator/bridge/*/go.mod session/sasl/*/go.mod))
in-modules = GOWORK='$(CURDIR)/go.work' $(1) $(MODULES:%=./%/...)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: ## what has to pass before a change goes in: five minutes on two idle cores, eight the first time
	@ZKGRANT_REAL=1 ZKGRANT_TURN=$${ZKGRANT_TURN-$$(git rev-parse HEAD 2>/dev/null)} MAKE='$(MAKE)' .ci/steps test fetch check meters tests newest race mutants interop

.PHONY: test-all
test-all: ## everything at full length, in less than an hour: before an issue is called resolved, and nightly
	@ZKGRANT_REAL=1 ZKGRANT_FULL=1 MAKE='$(MAKE)' .ci/steps test-all fetch build vet platforms lint meters tests race oldest-newest mutants interop kills flakes
	@git diff --quiet HEAD && git rev-parse HEAD >.ci/last-full && echo 'test-all: commit .ci/last-full, so that make test leaves out what has not changed since'

.PHONY: fetch
fetch: deps ## fetch what the tests need; go fetches modules when it compiles them
ifneq ($(BENCH),)
	bench/deps $(if $(BENCH_CHANGED),,curator writelock kazoo prometheus)
endif

.PHONY: deps
deps: ## make Java and ZooKeeper available for the tests that need real servers
	@.ci/deps

.PHONY: build
build: ## compile everything, the examples and bench included
	$(GO) build -o /dev/null ./...
ifneq ($(BENCH),)
	cd bench && $(GO) build -o /dev/null ./...
endif
	$(call in-modules,$(GO) build -o /dev/null)

.PHONY: vet
vet: ## go vet where an int has 32 bits; where it has 64, lint does it, and the steps of tests leave it out
	GOARCH=386 $(GO) vet ./...

# PURE are the packages that run wherever Go does, and the server inside the process.
PURE := ./events ./recipes/... ./session/internal/... ./session/zktest

.PHONY: platforms
platforms: ## the tests of the pure packages where an int has 32 bits; everything compiled for arm64, and the library vetted, with its tests, and the command compiled for Windows and macOS
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

# Building golangci-lint takes more processor time than all that make test compiles.
.PHONY: check
check: ## make lint if golangci-lint is built already, else go vet
ifneq ($(wildcard $(GOLANGCI)),)
	@$(MAKE) --no-print-directory lint
else
	@echo 'check: go vet alone, and not on bench: golangci-lint is not built; make lint builds it, and .ci/run and make test-all run it'
	$(GO) vet ./...
	$(call in-modules,$(GO) vet)
endif

.PHONY: meters
meters: ## what a lock passes on its way, and the lines of each room; for reading, fails nothing
	-@$(GO) run ./coordinator/reliability/meters

# The version is part of the name, so that another version is another file.
$(GOLANGCI):
	@echo 'lint: building golangci-lint $(GOLANGCI_VERSION), which takes a minute or two, once'
	GOBIN='$(CURDIR)/.deps/bin' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv .deps/bin/golangci-lint $@

# RACED are the packages with their own goroutines, but for the one that starts real servers. make test runs all of their tests without
# the race detector, which makes them several times slower, and one in three under it, by turns; make test-all runs each of them under it.
# The rest has no goroutines: the explorer is pure. GOGC=400: the clients' large buffers keep the collector busy, and there is memory
# enough. MANY are coordinator's tests with up to 100,000 locks, for which the detector has too little memory. The tests that it slows
# most, those with real servers or with many locks and lost frames, run under it at full length only. Nothing is taken from Go's cache
# of results (-count=1): it does not know what a server has answered.
FULL := $(filter 1,$(ZKGRANT_FULL))
RACED = ./coordinator ./actors/... $$($(GO) list ./session/... | grep -v '/zktest/ensemble$$') ./coordinator/reliability/schedules
MANY := HandoffDoesNotWaitForABurst|CloseOfManyLocks|ATryInAnOutage|ShareAListing
UNRACED := $(if $(FULL),,^TestReal|ShareAListing|WhichOfManyIsGone|AnAnswerToManyThatIsLost|WhateverFrameIsLost)
APART := ./coordinator/reliability/mutants

.PHONY: tests
tests: ## the tests without the race detector, but at full length (ZKGRANT_FULL=1) those that run under it
	GOGC=400 $(GO) test -vet=off -shuffle=on -count=1 -timeout 60m $$(comm -23 <($(GO) list ./... | sort) <($(GO) list $(APART) $(if $(FULL),$(filter-out %/schedules,$(RACED))) | sort))
ifneq ($(FULL),)
	GOGC=400 $(GO) test -vet=off -count=1 -timeout 60m -run '$(MANY)' ./coordinator
endif
	$(call in-modules,$(GO) test -vet=off -shuffle=on -count=1 -timeout 60m) $(if $(BENCH_CHANGED),$$($(GO) -C bench list ./... | grep -v '/interop$$'))

.PHONY: race
race: ## the tests under the race detector: one in three, by turns, and each at full length
	GOGC=400 GO='$(GO)' .ci/race -vet=off -shuffle=on -count=1 -timeout 60m -run="$$(.ci/turn 3 $$($(GO) list -f '{{.Dir}}' $(RACED)))" $(if $(UNRACED),-skip='$(UNRACED)') $(RACED)

.PHONY: mutants
mutants: ## put the seeded bugs that a change touches into the library and see that their tests find them; at full length, each bug and each of its tests
	GOGC=400 ZKGRANT_REAL= ZKGRANT_FULL= ZKGRANT_TURN= ZKGRANT_MUTANTS=$(if $(filter 1,$(ZKGRANT_FULL)),every,$(or $(shell .ci/since),1)) $(GO) test -count=1 -v -timeout 60m -run 'TestEverySeededBugIsFound' ./coordinator/reliability/mutants | grep --line-buffered -avE '^ *(=== |--- PASS|mutants_test.go:[0-9]+: .* after [0-9.]+m?s$$)'

.PHONY: kills
kills: ## the kill matrix, .deps/kills.txt: which tests find which seeded bug; six minutes on two idle cores
	@mkdir -p .deps
	GOGC=400 ZKGRANT_REAL= ZKGRANT_FULL= ZKGRANT_KILLS='$(CURDIR)/.deps/kills.txt' $(GO) test -count=1 -v -timeout 60m -run TestKillMatrix ./coordinator/reliability/mutants | grep --line-buffered -avE '^ *(=== |--- PASS)'

.PHONY: flakes
flakes: ## the tests that have changed, 30 times beside two busy loops, for ten minutes at most
	GO='$(GO)' .ci/flakes

.PHONY: interop
interop: ## one queue with locks of other libraries, run by themselves: Curator, go-zookeeper, kazoo, WriteLock
ifneq ($(BENCH),)
	cd bench && ZKGRANT_REAL=1 $(GO) test -shuffle=on -count=1 -timeout 60m -parallel 4 -skip '^TestNeighbours$$' ./interop
endif

.PHONY: versions
versions: deps ## real servers of several releases, got by Maven coordinates: locks, faults of three servers, an upgrade; an hour, RELEASES=3.9.5 for some
	@GO='$(GO)' .ci/versions $(RELEASES)

.PHONY: neighbours
neighbours: deps ## releases of other libraries in one queue with zkgrant, beside releases of ZooKeeper; RELEASES=3.9.5 for some
ifneq ($(BENCH),)
	bench/deps
	@GO='$(GO)' PARTS=neighbours .ci/versions $(RELEASES)
endif

.PHONY: oldest-newest
oldest-newest: ## the conformance script and the locks, on the oldest release with all that locks need, and on the newest
	@GO='$(GO)' PARTS='conformance locks' .ci/versions $(OLDEST) $(NEWEST)

# It is quick, and runs only where the release is there already.
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
reliability: deps ## measure the promises at full length and print the table; takes a while, and wants a quiet machine
	@mkdir -p $(dir $(FIGURES)) && rm -f $(FIGURES)
	@status=0; \
	ZKGRANT_REAL=1 ZKGRANT_RELIABILITY=1 ZKGRANT_FIGURES='$(CURDIR)/$(FIGURES)' \
		$(GO) test -count=1 -p 1 -timeout 60m -v $(addprefix ./coordinator/reliability/,schedules faults histories) || status=$$?; \
	$(GO) run ./coordinator/reliability/table $(FIGURES); \
	exit $$status

.PHONY: timeline
timeline: ## measure and draw a partition's time line: Curator, go-zookeeper, zkgrant
	bench/deps
	cd bench && $(GO) run ./timeline

.PHONY: bench
bench: ## measure locks of five libraries side by side; half an hour, and wants a quiet machine
	bench/deps
	cd bench && $(GO) run ./locks

.PHONY: bench-distance
bench-distance: ## the part of it that is measured by distance, in five minutes; the other results are kept
	bench/deps
	cd bench && $(GO) run ./locks -distance

.PHONY: bench-cached
bench-cached: ## the part of it that is about cached locks, in six minutes; the other results are kept
	bench/deps
	cd bench && $(GO) run ./locks -cached

.PHONY: bench-quick
bench-quick: ## the same with less of everything, in less than five minutes; the results go to bench/quick
	bench/deps
	mkdir -p bench/quick
	cd bench && $(GO) run ./locks -quick -o quick

.PHONY: bench-crowd
bench-crowd: ## 1,000 sessions with a lock each on three servers, in eight minutes; wants a quiet machine
	bench/deps
	cd bench && $(GO) run ./crowd

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s)
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
