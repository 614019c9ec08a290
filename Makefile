# rfsd: build, test, prove. Every verb prints what it could not run and why.
SHELL      := /bin/bash
GO         ?= go
# The race detector needs cgo.
CGO_ENABLED ?= 0
export CGO_ENABLED
# The release, then the time of the commit, by which builds of a release are in order, and the commit.
RELEASE    := 0.1.0
VERSION    ?= $(RELEASE)+$(shell TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h 2>/dev/null || echo dev)$(shell git diff --quiet HEAD 2>/dev/null || echo .dirty)
LDFLAGS    := -s -w -X main.version=$(VERSION)
BIN        := bin
GOBIN_DIR  := $(shell $(GO) env GOPATH)/bin
LINT       := $(GOBIN_DIR)/golangci-lint
LINT_VERSION := v2.15.0
FUZZTIME   ?= 2s
# OpenSearch versions that end-to-end tests boot.
TARGETS    ?= 2.19.4 3.8.0

.PHONY: all cross image packages packages-test release build test quick unit race plain unraced lint docs-check fuzz fuzz-short sim sim-and-packages sim-worlds sim-faults e2e e2e-programs e2e-waiting e2e-packages e2e-clusters abuse vuln ci bench bench-peers demo fixtures corrupt mutants tools clean fleet fresh night kills

all: build

build:
	@mkdir -p $(BIN)
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/rfsd ./cmd/rfsctl
	@deploy/package/size.sh $(BIN)/rfsd $(BIN)/rfsctl

## lint: gofmt, and golangci-lint with go vet and the dependency rules between packages
lint: tools
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "not formatted"; exit 1; }
	$(LINT) run --allow-parallel-runners ./...

tools:
	@testing/tools.sh $(LINT) $(LINT_VERSION)

## unit: fast tests without servers
unit:
	@testing/gotest.sh unit -short ./...

## quick: what differs from main, in 90 seconds with warm caches; QUICKBASE=REVISION compares with another
quick: tools
	@LINT=$(LINT) testing/quick.sh $(QUICKBASE)

# testing/e2e starts programs that are built without the race detector, testing/sim lets one goroutine run at a time, and the
# others of these packages have tests of one goroutine: plain runs them.
PLAIN      := (/testing/(arch|bench/corpus|corrupt|e2e|fuzzing|mutants|sim|spec|truth|verbs|words)|/daemon/mirror|/deploy/(image|package/sbom)|/rfs/source/rebuild)$$
# Slow tests of one goroutine: unraced runs them in the packages that have them.
UNRACED    := VersionMixes_|RealSnapshotsGive|EveryDamageIsFound|AreBoundedBeforeTheyUnfold|ReadSliceBySlice|HostileLongDocuments|HostileCatalogsAre|LargeCatalogsArrive|Nesting_IsBounded|AnswersAreBounded|IdsThatNeedNoEscapes|IdsAreBase64|ALineBreakIsFound|FieldsHoldWhatWasSent|DamagedColumnsAreNever|DamagedTextIsNever|TextIsWhatWasIndexed|ColumnsHoldWhat|ColumnsOfLucene4|DictPieces|ASourceBeyondTheLimit|ASampleIsEven|ADamagedFileNeverKills|AWrongByteIsFound|EveryStoredFormat|SelectedDocumentsOfSlicedChunks|NeededBytesAreRight|ContentsOfEveryVersion|SizeOfASet|DamageIsNoDifference|InRanges|TypesOfModules|EveryContentAndLevel|EveryBitIsDamaged|AnotherReaderGoesOnAnywhere|NoErrorOfReadingIsOverlooked
race:
	@CGO_ENABLED=1 testing/gotest.sh race -p 3 -race -short -vet=off -timeout 30m -skip '$(UNRACED)' $$($(GO) list ./... | grep -vE '$(PLAIN)')

plain:
	@testing/gotest.sh plain -short $$($(GO) list ./... | grep -E '$(PLAIN)')

unraced:
	@testing/gotest.sh unraced -short -vet=off -run '$(UNRACED)' $$(grep -rlE 'func Test\w*($(UNRACED))' --include=*_test.go rfs | xargs dirname | sed 's,^,./,' | sort -u | grep -vE '$(PLAIN)')

## fuzz-short: every fuzz target for FUZZTIME each
fuzz-short:
	@testing/fuzz.sh $(FUZZTIME)

## fuzz: minutes per target
fuzz:
	@testing/fuzz.sh $${FUZZTIME:-5m}

## sim: whole migrations in virtual time, as many worlds as SIMTIME allows but at least SEEDS; replay one with
## go test ./testing/sim -run Whatever -seed=N. A world runs one goroutine at a time and takes some seconds, so SIMLIMIT
## has to leave room for SEEDS, and the single faults run beside the drawn worlds.
SEEDS      ?= 50
SIMTIME    ?= 2m
SIMLIMIT   ?= 60m
sim:
	@testing/gotest.sh spec ./testing/spec
	@$(MAKE) --no-print-directory -j2 sim-worlds sim-faults

sim-worlds:
	@testing/gotest.sh sim-worlds ./testing/sim -run WhateverFails -timeout $(SIMLIMIT) -seeds=$(SEEDS) -for=$(SIMTIME)

sim-faults:
	@testing/gotest.sh sim-faults ./testing/sim -skip WhateverFails -timeout $(SIMLIMIT)

## fleet: 500 nodes and 20,000 workers in virtual time, with hints and without (about 80 s)
fleet:
	@testing/gotest.sh fleet -count=1 ./testing/fleet

## mutants: break one rule at a time in a copy; every mutant must turn a test red
mutants:
	$(GO) run ./testing/mutants

## e2e: the built programs, those of their tests that mostly wait, the packages, and clusters of every version, against real
## servers: three of the four at a time, each with nodes of its own (8 GB of memory; E2EJOBS=1: one after the other). Nodes
## that the environment names are shared, one after the other. With E2EFLAGS the tests of the programs are not divided.
E2EJOBS    ?= $(if $(filter RFSD_TEST_OPENSEARCH_%,$(.VARIABLES)),1,3)
# What the README promises: each major version is migrated; a killed worker and a killed daemon; rejected documents and their redrive;
# verify; undo; a node; S3. make test runs these, and make ci therefore does not run them again.
PROMISED   := FixtureOfEachMajor|KilledWorkersLose|KilledDaemon_Items|RedriveAfterTheMapping|VerifyExplainsFailed|UndoRemovesWhat|RfsdRunIsAService|FromABadS3
WAITING    := Node|Daemon|FirstContact|Orders|Page|Watched|SameJSON|Lease|Deadline|SilentTarget|Tuned|KilledMigration|WorkersTake|KilledWorkers|DiskIsNearly|AtRandom|AfterAFleet|FinishRestores|StartsOver|MachinesGrow|ProcessesShare|FaultsOfEachKind
e2e: build
ifdef E2EPACKAGES
	@testing/e2e.sh e2e $(TARGETS)
else
	@$(MAKE) --no-print-directory -j$(E2EJOBS) e2e-programs $(if $(E2EFLAGS),,e2e-waiting) e2e-packages e2e-clusters
endif

e2e-programs:
	@E2EPACKAGES=./testing/e2e/... E2EFLAGS="$(or $(E2EFLAGS),-skip $(WAITING)$(addprefix |,$(TESTED)))" testing/e2e.sh e2e-programs $(TARGETS)

e2e-waiting:
	@E2EPACKAGES=./testing/e2e/... E2EFLAGS="-run $(WAITING) $(addprefix -skip ,$(TESTED))" testing/e2e.sh e2e-waiting $(TARGETS)

# Packages whose tests use servers. make e2e takes all, for their long tests; make ci takes these.
SERVED      = $(sort $(dir $(shell grep -rlE 'rfsd/testing/(cluster|objectserver)"' --include=*_test.go rfs)))
e2e-packages:
	@E2EPACKAGES="$(or $(PACKAGES),./testing/corrupt ./rfs/...)" testing/e2e.sh e2e-packages $(TARGETS)

e2e-clusters:
	@E2EPACKAGES=./testing/cluster testing/e2e.sh e2e-clusters $(firstword $(TARGETS))

## test: short tests, and what the README promises with one real OpenSearch; installs what it needs on Debian/Ubuntu or names
## the command. At most 10 minutes on two cores, downloads apart; TESTS=PATTERN selects tests with the server, RACE=1 runs the short
## tests under the race detector
test:
	@RACE='$(RACE)' TESTS='$(or $(TESTS),$(PROMISED))' testing/test.sh

## vuln: known weaknesses of the modules in use; prints when the database cannot be reached
vuln:
	@testing/vuln.sh

## docs-check: what the pages print, list and name against the programs: outputs of commands, tables, messages, files and links
docs-check:
	@testing/gotest.sh docs-check -short -run 'Example|Documentation|DocumentedTypes|SettingsDocument|PhasesDocument|ExitCodesIsTrue|PageHolds|ReferToWhat|NamesItsTest|IsInTheTable|NamesReal|^TestPages|TheDescriptionIs' \
		./cmd/config ./cmd/exit ./daemon/api ./rfs/destination/failed/classes ./rfs/destination/metadata ./rfs/migration/phase ./rfs/source/rebuild ./testing/arch ./testing/e2e ./testing/truth ./testing/words

## abuse: attacks on the built programs, on loopback (some minutes)
abuse: build
	RFSD_ABUSE_BIN=$(CURDIR)/$(BIN) $(GO) test -count=1 -timeout 20m ./testing/abuse

## ci: everything a change has to pass. Attacks wait for deadlines most of the time: simulations and packages use the processors meanwhile
ci:
	$(MAKE) test RACE=1
	$(MAKE) lint
	RFSD_TESTS=12:$$(date +%s) $(MAKE) e2e TESTED='$(PROMISED)' PACKAGES='$(addprefix ./,$(SERVED))'
	$(MAKE) vuln
	RFSD_TESTS=3:$$(date +%s) $(MAKE) -j2 abuse sim-and-packages SEEDS=20 SIMTIME=1m
	FUZZPACKAGES=3 $(MAKE) fuzz-short

sim-and-packages:
	$(MAKE) --no-print-directory sim
	$(MAKE) --no-print-directory packages

## fresh: README's commands in a fresh Debian root, as root and as a user (root, debootstrap; 1 to 2 hours). FRESH=cold
## empties the caches of earlier runs
fresh:
	@testing/fresh.sh

## night: all that ci cannot hold; NIGHT="sources import …" runs some parts
night:
	@testing/night.sh $(NIGHT)

## packages: deb and rpm of this machine's architecture in dist/ (needs gcc)
packages:
	@deploy/package/build.sh $(VERSION)

## release: deb and rpm for amd64 and arm64, checksums and bills of materials in dist/ (needs gcc and its cross compiler)
release:
	@deploy/package/build.sh $(VERSION) amd64 arm64

## cross: rfsd and rfsctl for macOS and Windows in bin/OS-ARCH, and go vet of what they are made of
CROSS      ?= darwin-arm64 darwin-amd64 windows-amd64
cross: tools
	@set -e; for of in $(CROSS); do export GOOS=$${of%-*} GOARCH=$${of#*-}; echo "cross: $$of"; mkdir -p $(BIN)/$$of; \
	  $(LINT) run --allow-parallel-runners --tests=false --enable-only govet ./cmd/... ./daemon/... ./gossip/... ./store/... ./rfs/...; \
	  $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/$$of/ ./cmd/rfsd ./cmd/rfsctl; done

## image: an OCI image for amd64 and arm64 in dist/, without a container daemon; IMAGEARCH=amd64 for one of them
image:
	@deploy/image/build.sh $(VERSION) $(IMAGEARCH)

## packages-test: deb and rpm in a fresh Debian root (RFSD_DEBIAN_ROOT keeps one); needs debootstrap and rpm
packages-test:
	@RFSD_PACKAGES=1 testing/gotest.sh packages-test -count=1 -timeout 60m ./deploy

clean:
	rm -rf $(BIN)

## bench: the table of docs/PERFORMANCE.md, each figure beside its limit; BENCHFLAGS='-part reading' for a part
bench: build
	$(GO) build -o $(BIN)/bench ./testing/bench
	$(BIN)/bench $(or $(BENCHFLAGS),-part all -write docs/PERFORMANCE.md)

## bench-peers: one index from Elasticsearch 7.10.2 into OpenSearch by rfsd, by _reindex from remote, by elasticdump, and by esm where it is
## on the path; the table of docs/PERFORMANCE.md. BENCHFLAGS='-peers 5000 -rounds 1' is a short one
bench-peers: build
	$(GO) build -o $(BIN)/bench ./testing/bench
	$(BIN)/bench $(or $(BENCHFLAGS),-peers 223000 -rounds 3 -write docs/PERFORMANCE.md)

## demo: migrates a bundled real snapshot into files; TARGET=opensearch starts a real one and migrates into it; TARGET=follow follows a real source and cuts over
demo: build
	@$(GO) run ./testing/demo $(if $(TARGET),-target $(TARGET))

## fixtures: makes testing/fixtures again from real clusters (FIXTURES="name …" for some of them)
fixtures:
	$(GO) run ./testing/snapgen $(FIXTURES)

## corrupt: every byte of every blob of small repositories of each generation, and cuts, swaps, deletions
corrupt:
	@RFSD_CORRUPT=full testing/gotest.sh corrupt -count=1 -timeout 6h -run "NoDamage|EveryFlipped" ./testing/corrupt ./rfs/source/lucene
