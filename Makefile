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

# bench is a module of its own, so that what it compares with never enters a user's go.sum.
BENCH := $(wildcard bench/go.mod)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: deps build vet lint race explore ## everything: what has to pass before a change goes in
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

# The version is part of the name, so that another version is another file.
$(GOLANGCI):
	@echo 'lint: building golangci-lint $(GOLANGCI_VERSION), which takes a minute or two, once'
	GOBIN='$(CURDIR)/.deps/bin' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv .deps/bin/golangci-lint $@

.PHONY: short
short: ## the tests, without those on real servers where there are none
	$(GO) test ./...

.PHONY: race
race: deps ## the tests under the race detector, on real servers too
	ZKGRANT_REAL=1 $(GO) test -race -shuffle=on ./...

.PHONY: explore
explore: ## every interleaving of a few clients, which the race detector would make too slow
	$(GO) test -count=1 -v -run Explore ./recipes/

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
