# make help says what there is. Everything runs from a clean clone; the tests start servers of
# their own and touch no other.

GO ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# Everything that needs no server: all packages but the end-to-end ones, plus the layout test.
UNIT = $$($(GO) list ./... | grep -v '^braid/tests/') 
E2E = ./tests/...
# A module of its own (docs/decisions/0003-demo-module.md); its go.mod follows Braid's by itself.
DEMO = cmd/braid-demo

.PHONY: help build demo check fmt vet staticcheck unit servers test difftest fuzzdiff fuzz bench bench-gate long bank clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | column -t -s "$$(printf '\t')"

build: ## bin/braid, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/braid ./cmd/braid

# make demo ARGS='--once --server embedded'
demo: build ## four shards on two nodes with a sample shop, and a tour; needs Go only
	cd $(DEMO) && CGO_ENABLED=0 $(GO) build -mod=mod -trimpath -ldflags "-s -w" -o ../../bin/braid-demo .
	bin/braid demo $(ARGS)

check: fmt vet staticcheck unit ## format, vet, staticcheck, layout, unit tests with -race (3 minutes, no server)

fmt:
	@files=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

vet:
	$(GO) vet ./...
	cd $(DEMO) && $(GO) vet -mod=mod ./...

staticcheck:
	$(GO) run $(STATICCHECK) ./...
	cd $(DEMO) && GOFLAGS=-mod=mod $(GO) run $(STATICCHECK) ./...

unit:
	$(GO) test -race -timeout 10m $(UNIT)

servers: ## the servers the tests need: MariaDB (apt-get), MySQL 9 (a chroot in the cache)
	@scripts/deps.sh || echo "servers: tests that miss a server will skip and say so" >&2
	@scripts/mysql9.sh || echo "servers: no MySQL 9 here, its tests will skip and say so" >&2

# One package at a time: each starts several servers.
test: servers check ## everything, end to end, -race, on MariaDB and MySQL 9 (28 minutes): what CI runs
	$(GO) test -race -count=1 -p 1 -timeout 30m -v $(E2E)
	cd $(DEMO) && $(GO) test -mod=mod -count=1 -timeout 10m -v ./...

# make difftest BRAID=user:pw@tcp(host:port)/shop PLAIN=user:pw@tcp(host:port)/shop compares an
# installation of yours; without, it starts its own servers and Braid.
difftest: servers ## the differential cases; BRAID=dsn PLAIN=dsn for an installation of your own
	$(GO) test -count=1 -timeout 30m -v ./tests/difftest $(if $(BRAID),-run TestInstallation -braid '$(BRAID)' -plain '$(PLAIN)')

.PHONY: bin/bench
bin/bench: build
	$(GO) build -o bin/bench ./tests/bench

# make fuzzdiff N=5000 SEED=7 makes other statements, or more.
N ?= 1500
SEED ?= 1
fuzzdiff: servers ## N random SELECTs from SEED on, over four shards and on one plain server, both flavours
	$(GO) test -count=1 -timeout 1h -v ./tests/difftest -run TestRandomStatements -random $(N) -seed $(SEED)

# make bench BENCH='-only points -conns 1,16,64 -floor -profile cpu.prof'; bin/bench -help says more.
bench: bin/bench ## Braid beside haproxy on null servers, against the goals (5 minutes, a quiet machine)
	bin/bench -braid bin/braid $(BENCH)

bench-gate: bin/bench ## fails when a point select costs more than 2.2 times haproxy's CPU
	bin/bench -braid bin/braid -only points -conns 16 -gate $(BENCH)

FUZZTIME ?= 1m
fuzz: ## each fuzz target for FUZZTIME; their corpora run in every make check
	@for package in ./conf ./internal/mysql ./proxy ./router; do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

long: servers bin/bench ## the sizes of the issues: sysbench, TPC-C, 50 crashes of transactions and 200 of writes on each flavour, 800,000 ids of two Braids, the benchmark's gate (1 hour)
	$(GO) test -count=1 -timeout 1h -v ./tests/difftest -run TestRandomStatements -random 5000
	$(GO) test -count=1 -timeout 3h -v ./tests/workload -long
	$(GO) test -count=1 -timeout 1h -v ./tests/drivers -run 'TestClientTest|TestGoSQLDriverSuite' -all
	$(GO) test -count=1 -timeout 1h -v ./tests/schema -run TestRandomWrites -writes 10000 -writes-seed 0
	$(GO) test -race -count=1 -timeout 1h -v ./tests/session -steps 100000
	$(GO) test -race -count=1 -timeout 1h -v ./tests/protocol -run TestStatementsLeakNowhere -rounds 50000
	$(MAKE) fuzz FUZZTIME=10m
	bin/bench -braid bin/braid -gate $(BENCH)

# Money moves over four shards while nodes, connections and Braid are killed.
MINUTES ?= 3
bank: servers ## the bank test: MINUTES=30 of transfers and kills on each flavour, nothing lost (MINUTES=3)
	$(GO) test -count=1 -timeout 24h -v ./tests/workload -run TestBank -minutes $(MINUTES)

clean: ## remove bin/
	rm -rf bin
