package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/draw"
)

// calmWorld is one in which nothing fails.
func calmWorld(seed uint64) Config {
	return Config{
		Seed: seed, Processes: 3, Indices: 6, Long: 3, Documents: 10, Lease: time.Minute, Trip: 4 * time.Second,
		StoreTrip: 40 * time.Millisecond, Quiet: 2 * time.Hour, Limit: 20 * time.Hour,
	}
}

// lone is a world of `rfsd migrate` with a coordination file and an export directory.
func lone(seed uint64) Config {
	cfg := calmWorld(seed)
	cfg.Processes, cfg.Migrate, cfg.File, cfg.Indices, cfg.Long, cfg.Lease = 1, true, true, 3, 2, 10*time.Minute
	cfg.Quiet = 15 * time.Minute
	return cfg
}

// TestEachFaultByItself runs worlds with one kind of fault each. The comment of a case names the invariant that holds
// against it, beside those of every world.
func TestEachFaultByItself(t *testing.T) {
	faults := []struct {
		name   string
		seeds  uint64
		config func(seed uint64) Config
		check  func(r Report) error
	}{
		// No lease is lost without a cause.
		{"the store takes seconds, hand-offs too", 4, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.StoreTrip, cfg.Lease = 3*time.Second, 40*time.Second
			return cfg
		}, nil},
		// What a lease is too short to hand off is released, and the next one is longer.
		{"the store takes 4 s, leases of 20 s", 4, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.StoreTrip, cfg.Lease = 4*time.Second, 20*time.Second // each way takes up to so long
			return cfg
		}, func(r Report) error {
			if r.Lost > 0 {
				return fmt.Errorf("%d of %d leases were lost", r.Lost, r.Leases)
			}
			if r.Results["release applied"] == 0 {
				return errors.New("no lease was too short: nothing is proven")
			}
			return nil
		}},
		// Documents go on until the trigger.
		{"the store is silent for 45 s", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Lease, cfg.Processes, cfg.Long, cfg.Indices, cfg.Trip = 10*time.Minute, 1, 3, 3, 8*time.Second
			cfg.During = func(w *world) {
				if !w.pause(30 * time.Second) {
					return
				}
				w.server.silence(45*time.Second, false)
				at := time.Now()
				w.pause(45 * time.Second)
				w.checkSteady(at, 45*time.Second, 18*time.Second)
			}
			return cfg
		}, nil},
		// No healthy item fails.
		{"the only process is killed again and again", 3, func(seed uint64) Config {
			cfg := lone(seed)
			cfg.Kill = 20 * time.Second
			return cfg
		}, killed(5)},
		// The chains of all parts cover the shard.
		{"fifty kills while large shards are in parts", 3, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Processes, cfg.Lease, cfg.Kill, cfg.Documents, cfg.Split, cfg.Bucket = 5, 20*time.Second, 4*time.Second, 4, splitOver, seed == 2
			return cfg
		}, func(r Report) error {
			if r.Parts < 15 {
				return fmt.Errorf("%d items of parts: nothing is proven", r.Parts)
			}
			return killed(50)(r)
		}},
		// The audit makes what the store forgot of every part, and what is no longer seeded is seeded again.
		{"the store forgets seconds while large shards are in parts", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Processes, cfg.Lease, cfg.Lose, cfg.Kill, cfg.Split = 5, 20*time.Second, 10*time.Second, 20*time.Second, splitOver
			cfg.During = func(w *world) {
				for w.now() < 5*time.Minute && w.pause(15*time.Second) {
					n := w.server.forget(cfg.Lose)
					w.mu.Lock()
					w.report.Forgotten += n
					w.mu.Unlock()
				}
			}
			return cfg
		}, func(r Report) error {
			if r.Forgotten < 20 {
				return fmt.Errorf("%d writes were forgotten: nothing is proven", r.Forgotten)
			}
			return nil
		}},
		// What is complete is in finished files.
		{"the only machine crashes again and again", 3, func(seed uint64) Config {
			cfg := lone(seed)
			cfg.Kill, cfg.Crash, cfg.Lease, cfg.Drain = time.Minute, true, 20*time.Second, 2*time.Minute
			return cfg
		}, killed(2)},
		// All other indices arrive meanwhile, and the overloaded one is asked no more often than alone.
		{"one index is overloaded for half an hour", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Processes, cfg.Migrate = 1+int(seed%2), seed%2 == 0
			cfg.During = func(w *world) { w.oneIndexFor(30*time.Minute, "t000", "") }
			return cfg
		}, func(r Report) error {
			if r.Hot < 100 || r.Hot > 30*30 {
				return fmt.Errorf("%d requests for the overloaded index", r.Hot)
			}
			return nil
		}},
		// All other indices arrive meanwhile, and no document is taken for failed.
		{"one index is blocked for half an hour", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Processes, cfg.Migrate = 2, seed%2 == 0
			cfg.During = func(w *world) { w.oneIndexFor(30*time.Minute, "", "t001") }
			return cfg
		}, nil},
		// What a pipeline drops is in the record of failed documents.
		{"a pipeline drops documents, and others are refused in each way", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Drops, cfg.Refuses, cfg.Kill, cfg.Lease, cfg.Migrate = 0.05, 0.05, time.Minute, 40*time.Second, seed%2 == 0
			return cfg
		}, nil},
		// What is sent again is counted by the next holder, exactly.
		{"holders are killed in the middle of their requests", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Kill, cfg.Lease = 15*time.Second, 40*time.Second
			return cfg
		}, func(r Report) error {
			if r.Counted != r.Copies || r.Counted == 0 {
				return fmt.Errorf("the target took %d copies, the items count %d", r.Copies, r.Counted)
			}
			return killed(3)(r)
		}},
		{"the only process is stopped by signals", 3, func(seed uint64) Config {
			cfg := lone(seed)
			cfg.Drain = 30 * time.Second
			return cfg
		}, nil},
		// No healthy item fails.
		{"the target is busy for minutes, with short leases", 3, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Lease, cfg.Trip, cfg.During = 2*time.Second, 200*time.Millisecond, func(w *world) {
				for _, is := range []weather{busy, away, hangs, busyItems} {
					w.pause(20 * time.Second)
					w.target.set(is)
					w.pause(10 * time.Minute)
					w.target.set(fair)
				}
			}
			return cfg
		}, nil},
		// A lost acquisition keeps its item from all for a moment only, and no healthy item fails.
		{"answers to acquisitions are lost", 3, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Lease, cfg.Faults.Late, cfg.Faults.Lost = 10*time.Minute, 0.3, 0.3
			cfg.Quiet = 30 * time.Minute
			return cfg
		}, nil},
		{"the answer to an acquisition is lost, and the store is silent for a minute", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Processes, cfg.Indices, cfg.Long, cfg.Lease = 1, 1, 1, 10*time.Minute
			lost := false // the first, once
			cfg.AtCall = func(w *world, _ int, what string) Fate {
				if lost || !strings.HasPrefix(what, "acquire") || strings.HasSuffix(what, cms.SetupID) {
					return Fine
				}
				lost = true
				time.AfterFunc(5*time.Second, func() { w.server.silence(90*time.Second, true) })
				return LostAfter
			}
			cfg.During = func(w *world) {
				if w.pause(4*time.Minute) && w.target.requests() == 0 {
					w.bad("the only process waits for its own lost lease")
				}
			}
			return cfg
		}, nil},
		{"acquisitions arrive late, in sequence", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Indices, cfg.Long = 1, 1
			cfg.AtCall = func(w *world, _ int, what string) Fate {
				if w.now() > 2*time.Hour || !strings.HasPrefix(what, "acquire") || strings.HasSuffix(what, cms.SetupID) {
					return Fine
				}
				return Late
			}
			return cfg
		}, nil},
		// Work moves on although hardly a document is sent: little is read twice.
		{"rules leave out nearly all", 3, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Lease, cfg.Think, cfg.Rules = 20*time.Second, 200*time.Millisecond, `
[[document]]
match = "chunks"
where = { field = "n", lt = 1270 }
leave-out = true
`
			return cfg
		}, func(r Report) error {
			if r.Read > 4600 { // there are 3999
				return fmt.Errorf("%d documents were read", r.Read)
			}
			return nil
		}},
		// A deadly document fails its own shard, with its ordinal, and no other.
		{"a document kills each reader", 2, func(seed uint64) Config {
			cfg := calmWorld(seed)
			cfg.Deadly, cfg.Lease = 1, 20*time.Second
			return cfg
		}, nil},
		// The wrong past of a clock is forgotten.
		{"the clock was ahead for an hour", 1, func(seed uint64) Config {
			cfg := lone(seed)
			cfg.Tolerance, cfg.Limit = 15*time.Second, time.Hour
			cfg.During = func(w *world) {
				w.pause(time.Millisecond) // virtual time moves once the process runs
				w.seats[0].machine().setSkew(time.Hour)
				w.pause(20 * time.Second)
				w.seats[0].end()
			}
			return cfg
		}, nil},
		// No process publishes what another attempt has begun.
		{"two slots lose and take the same items", 4, func(seed uint64) Config {
			cfg := lone(seed)
			cfg.Lease, cfg.Stop = 20*time.Second, 40*time.Second
			return cfg
		}, nil},
	}
	for _, c := range draw.Of(t, len(faults)/2, faults) {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() {
				c.seeds = 1
			}
			for seed := uint64(1); seed <= c.seeds; seed++ {
				if *seedFlag != 0 && *seedFlag != seed {
					continue
				}
				r := Run(t, c.config(seed))
				t.Logf("seed %d: %+v", seed, summaryOf(r))
				problems(t, seed, r)
				if c.check != nil {
					if err := c.check(r); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				}
			}
		})
	}
}

func problems(t *testing.T, seed uint64, r Report) {
	t.Helper()
	for i, p := range r.Problems {
		if i == 10 {
			t.Errorf("and %d more; replay with -seed=%d", len(r.Problems)-i, seed)
			return
		}
		t.Errorf("%s; replay with -seed=%d", p, seed)
	}
}

// oneIndexFor lets one index be overloaded, or refuse all documents, for so long. Those of all others have to arrive meanwhile.
func (w *world) oneIndexFor(d time.Duration, hot, blocked string) {
	w.target.trouble(hot, blocked)
	if !w.pause(d) {
		w.bad("the world ended before %v", d)
		return
	}
	if n := w.target.missing(); n > 0 {
		w.bad("%d documents of healthy indices are missing after %v", n, d)
	}
	w.target.trouble("", "")
}

func killed(least int) func(Report) error {
	return func(r Report) error {
		if r.Kills < least {
			return fmt.Errorf("%d kills prove nothing, want %d", r.Kills, least)
		}
		return nil
	}
}

// checkSteady notes a time without a bulk request longer than most.
func (w *world) checkSteady(from time.Time, d, most time.Duration) {
	w.target.mu.Lock()
	defer w.target.mu.Unlock()
	last, n := from, 0
	for _, s := range append(w.target.sends, sent{at: from.Add(d)}) {
		if s.at.Before(from) || s.at.After(from.Add(d)) {
			continue
		}
		if n++; s.at.Sub(last) > most {
			w.bad("no document was sent for %v after %v", s.at.Sub(last), last.Sub(w.start))
		}
		last = s.at
	}
	if n < 2 {
		w.bad("no document was sent in %v", d)
	}
}
