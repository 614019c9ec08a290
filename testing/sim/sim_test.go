package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/draw"
)

// TestMain runs one goroutine at a time: what happens at the same moment then happens in the same order in every run.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed only")
	seedsFlag = flag.Int("seeds", 0, "how many seeds at least; 0 = 3 with -short, else 12")
	forFlag   = flag.Duration("for", 0, "continue with further seeds for so long")
)

// splitOver makes about five parts of the large fixture.
const splitOver = 16 << 10

// config draws what goes wrong in the world of a seed.
func config(seed uint64) Config {
	cfg := Config{
		Seed: seed, Processes: 5, Indices: 14, Long: 5, Documents: 5 + int(seed%16), Hints: seed%3 == 1,
		Lease: []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute}[seed%3],
		Trip:  []time.Duration{2 * time.Second, 6 * time.Second}[seed%2], StoreTrip: 40 * time.Millisecond, Slow: 0.02,
		Faults: Faults{Lost: 0.02, Twice: 0.02, Late: 0.01, Die: 0.005, Conflict: 0.02, Bulk: 0.02, TooLarge: 0.02, Items: 0.02},
		Quiet:  2 * time.Hour, Limit: 20 * time.Hour,
		Kill: 3 * time.Minute, Stop: 3 * time.Minute, Drain: 4 * time.Minute, Migrate: seed%5 == 2,
	}
	switch seed % 4 {
	case 1:
		cfg.Skew, cfg.StoreTrip = time.Hour, time.Second
	case 2:
		cfg.Skew, cfg.Tolerance = time.Hour, timing.DefaultTolerance
	case 3:
		cfg.Jump = 20 * time.Second
		if !cfg.Migrate { // each run of migrate tries again what has failed
			cfg.Deadly, cfg.Limit = 2, 60*time.Hour // leases of the dead run out, again and again
		}
	}
	switch seed % 5 {
	case 1:
		cfg.Rules, cfg.Refuses, cfg.Drops = someRules, 0.02, 0.01
	case 3:
		cfg.Silence, cfg.Outage = 90*time.Second, 4*time.Minute
	case 4:
		cfg.Lose = 5 * time.Second
	}
	if seed%3 == 0 {
		cfg.Split = splitOver
	}
	cfg.Bucket = seed%6 == 0 && cfg.Lose == 0 // a bucket loses nothing
	if seed%8 == 5 {                          // a file for one process, and an export
		cfg = Config{
			Seed: seed, Processes: 1, Migrate: true, File: true, Crash: seed%16 == 5, Indices: 4, Long: 2, Documents: cfg.Documents,
			Lease: cfg.Lease, Trip: cfg.Trip, Quiet: 2 * time.Hour, Limit: 20 * time.Hour, Kill: time.Minute, Drain: 3 * time.Minute,
			Stop: 10 * time.Minute, Rules: cfg.Rules, Split: cfg.Split,
		}
	}
	return cfg
}

// someRules change and leave out documents of both fixtures.
const someRules = `
[[document]]
match = "chunks"
where = { field = "n", lt = 600 }
leave-out = true

[[document]]
match = "*"
copy = [{ from = "n", to = "m" }]
`

func TestNoDocumentIsLostWhateverFails(t *testing.T) {
	first, n := uint64(time.Now().UnixNano()), *seedsFlag
	switch {
	case *seedFlag != 0:
		first, n = *seedFlag, 1
	case n == 0 && testing.Short():
		n = 3
	case n == 0:
		n = 12
	}
	start, done := time.Now(), 0
	for done < n || *seedFlag == 0 && time.Since(start) < *forFlag {
		oneWorld(t, first+uint64(done))
		done++
	}
	t.Logf("%d seeds from %d on", done, first)
}

// oneWorld runs the world of a seed.
func oneWorld(t *testing.T, seed uint64) {
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		r := Run(t, config(seed))
		t.Logf("%+v", summaryOf(r))
		problems(t, seed, r)
	})
}

func summaryOf(r Report) Report {
	r.History, r.Problems = nil, nil
	return r
}

// TestASeedReplays runs worlds twice in which each process does one thing at a time: what several goroutines do at the same
// moment is the only thing that a seed does not decide.
func TestASeedReplays(t *testing.T) {
	seeds := []uint64{8, 2, 4} // of seed 1 a rare run differs: two goroutines of one process then wake in another order
	if testing.Short() {
		seeds = seeds[:1]
	}
	for _, seed := range seeds {
		cfg := config(seed)
		cfg.Flying, cfg.Migrate = 1, false
		a, b := summaryOf(Run(t, cfg)), summaryOf(Run(t, cfg))
		a.Read, b.Read = 0, 0 // how far a process has read ahead when it is killed is up to the scheduler
		if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
			t.Errorf("two runs of seed %d differ:\n%+v\n%+v", seed, a, b)
		}
	}
}

// TestAWorldThatDoesNotEndIsReported ends a world before its work: the bubble holds that no goroutine is left.
func TestAWorldThatDoesNotEndIsReported(t *testing.T) {
	cfg := config(11)
	cfg.Limit = time.Minute
	if r := Run(t, cfg); r.Ended || len(r.Problems) == 0 {
		t.Errorf("ended %v with the problems %v", r.Ended, r.Problems)
	}
}

func TestLeaseHistoriesAreThoseOfARegister(t *testing.T) {
	n := 2
	if testing.Short() {
		n = 1
	}
	for _, seed := range draw.Of(t, n, []uint64{1, 2, 3, 4}) {
		cfg := config(seed)
		cfg.Lose = 0
		r := Run(t, cfg)
		ops := r.History.operations()
		grace := timing.Grace(cfg.Lease)
		if got := porcupine.CheckOperationsTimeout(leases(grace), ops, time.Minute); got != porcupine.Ok {
			t.Errorf("seed %d: %d operations: %v", seed, len(ops), got)
		}
	}
}

func TestAWrongHistoryIsRefused(t *testing.T) {
	h := &History{}
	for _, holder := range []string{"a", "b"} { // both get the item at the same time
		o := h.begin("x", cms.Acquire{Holder: holder})
		h.effect(o)
		it := cms.Item{Holder: holder, AcquiredAt: 1_000_000, Expiration: 1600}
		h.end(o, it, cms.Applied)
	}
	if got := porcupine.CheckOperations(leases(time.Second), h.operations()); got {
		t.Error("two holders at a time were accepted")
	}
}

func TestTheFileIsARegisterForManyClients(t *testing.T) {
	s := boltstore.Open(t)
	n, fits, err := Hammer(t.Context(), s, 32, 40, 12, 1)
	if err != nil || !fits {
		t.Errorf("%d operations: fits %v, %v", n, fits, err)
	}
}
