# `make` explains itself; `make test` is everything that has to pass.

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

FIGURES := .deps/figures.jsonl

# bench is a module of its own, so that what it compares with never enters a user's go.sum.
BENCH := $(wildcard bench/go.mod)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: deps build vet lint race interop explore schedules mutants ## everything: what has to pass before a change goes in
	@echo 'test: all passed'

.PHONY: deps
deps: ## make Java and ZooKeeper available for the tests that need real servers
	@.ci/deps

.PHONY: build
build: ## compile everything, the examples and bench included
	$(GO) build -o /dev/null ./...
ifneq ($(BENCH),)
	cd bench && $(GO) build -o /dev/null ./...
endif

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...
ifneq ($(BENCH),)
	cd bench && $(GO) vet ./...
endif

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint, built from source on the first run
	$(GOLANGCI) run ./...
ifneq ($(BENCH),)
	cd bench && '$(CURDIR)/$(GOLANGCI)' run ./...
endif

# The version is part of the name, so that another version is another file.
$(GOLANGCI):
	@echo 'lint: building golangci-lint $(GOLANGCI_VERSION), which takes a minute or two, once'
	GOBIN='$(CURDIR)/.deps/bin' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv .deps/bin/golangci-lint $@

.PHONY: short
short: ## the tests in a few minutes: fewer schedules, no seeded bugs, no real servers where there are none
	$(GO) test -short ./...
ifneq ($(BENCH),)
	cd bench && $(GO) test -short ./...
endif

# Histories go without the race detector: its runtime was seen to fail a check of its own (tsan_rtl.cpp:346) while one
# was being searched. What they drive is raced in the other packages.
.PHONY: race
race: deps ## the tests under the race detector, on real servers too
	ZKGRANT_REAL=1 GO='$(GO)' .ci/race -shuffle=on -timeout=20m $$($(GO) list ./... | grep -v '/histories$$')
	ZKGRANT_REAL=1 $(GO) test -shuffle=on -timeout 20m ./coordinator/reliability/histories
ifneq ($(BENCH),)
	bench/deps
	cd bench && GO='$(GO)' ../.ci/race -shuffle=on $$($(GO) list ./... | grep -v '/interop$$')
endif

# Four workloads side by side: each of them waits for some seconds until the session of somebody who was killed expires.
.PHONY: interop
interop: ## one queue with locks of other libraries, run by themselves: Curator, go-zookeeper, kazoo, WriteLock
ifneq ($(BENCH),)
	bench/deps
	cd bench && ZKGRANT_REAL=1 $(GO) test -race -shuffle=on -count=1 -timeout 20m -parallel 4 -v ./interop
endif

.PHONY: explore
explore: ## every interleaving of a few clients, which the race detector would make too slow
	$(GO) test -count=1 -timeout 30m -v -run Explore ./recipes/

.PHONY: schedules
schedules: ## ten thousand random schedules of faults, which the race detector would make too slow
	$(GO) test -count=1 -timeout 30m -v -run Schedules ./coordinator/reliability/schedules

.PHONY: mutants
mutants: ## put more than three hundred bugs into the library, one at a time, and see that a test finds each; TABLE=write to note which
	$(if $(TABLE),ZKGRANT_MUTANTS='$(TABLE)') $(GO) test -count=1 -v -timeout 60m ./coordinator/reliability/mutants

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
bench: ## measure locks of five libraries side by side; ten minutes, and wants a quiet machine
	bench/deps
	cd bench && $(GO) run ./locks

.PHONY: bench-quick
bench-quick: ## the same with less of everything, in less than three minutes; the results go to bench/quick
	bench/deps
	mkdir -p bench/quick
	cd bench && $(GO) run ./locks -quick -o quick

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
