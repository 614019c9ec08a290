package sim

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/draw"
)

// lateRounds is a world in which every twentieth bulk request arrives late, unknown to its sender, often when later rounds have begun or ended.
func lateRounds(seed uint64) Rounds {
	cfg := calmWorld(seed)
	cfg.Indices, cfg.Long, cfg.Documents, cfg.Lease, cfg.Trip = 4, 0, 3, 20*time.Second, 2*time.Second
	cfg.Faults = Faults{Bulk: 0.1}
	cfg.Held = []time.Duration{time.Minute, 10 * time.Minute, 3 * time.Hour}[seed%3] // a round takes one to eight minutes
	cfg.Limit, cfg.Quiet = 10*time.Hour, 2*time.Hour
	return Rounds{Config: cfg, Number: 6}
}

// TestRounds_LateRequestsBringNothingBack: after each round the target holds what its snapshot has, also when requests of earlier rounds
// arrive, processes are killed and stopped, and answers of the store are lost.
func TestRounds_LateRequestsBringNothingBack(t *testing.T) {
	for _, c := range draw.Of(t, 2, []struct {
		name   string
		config func(*Config)
	}{
		{"late requests alone", func(*Config) {}},
		{"kills", func(c *Config) { c.Kill, c.Processes = 15*time.Second, 4 }},
		{"signals and standstills", func(c *Config) { c.Drain, c.Stop = 20*time.Second, 20*time.Second }},
		{"answers of the store are lost", func(c *Config) {
			c.Faults.Lost, c.Faults.Twice, c.Faults.Late, c.Faults.Conflict, c.Quiet = 0.05, 0.05, 0.02, 0.05, 30*time.Minute
		}},
		{"an overloaded target", func(c *Config) { c.Faults.Items, c.Faults.TooLarge = 0.2, 0.1 }},
	}) {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 3; seed++ {
				cfg := lateRounds(seed)
				c.config(&cfg.Config)
				r := RunRounds(t, cfg)
				t.Logf("seed %d: %+v", seed, summaryOf(r))
				problems(t, seed, r)
			}
		})
	}
}

// TestRounds_NeedTheirProtection: without versions that rise from round to round, and without a target that remembers deletions, late
// requests bring something back in one of a few worlds.
func TestRounds_NeedTheirProtection(t *testing.T) {
	for name, without := range map[string]func(*Rounds){
		"one version for all rounds":   func(r *Rounds) { r.SameVersion = true },
		"deletions that are forgotten": func(r *Rounds) { r.Forgets = time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 8; seed++ {
				cfg := lateRounds(seed)
				without(&cfg)
				if r := RunRounds(t, cfg); len(r.Problems) > 0 {
					t.Logf("seed %d: %s", seed, r.Problems[0])
					return
				}
			}
			t.Error("no world went wrong: nothing is proven")
		})
	}
}
