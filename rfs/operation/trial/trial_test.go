package trial

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestPrice(t *testing.T) {
	for _, c := range []struct {
		name, text, says string // says: "" for good
	}{
		{"all", "s3-get-per-1000 = 0.0004\negress-per-gb = 0.09\ninstance-per-hour = 1\n", ""},
		{"one", "instance-per-hour = 0.25", ""},
		{"nothing costs anything", "egress-per-gb = 0", ""},
		{"empty", "", "it has no price"},
		{"unknown key", "egress-per-gb = 1\negres = 2", "unknown key egres"},
		{"unknown table", "[s3]\nget = 1", "unknown key"},
		{"below zero", "egress-per-gb = -0.1", "from 0 to 1000000"},
		{"too much", "egress-per-gb = 1e7", "from 0 to 1000000"},
		{"no number", "egress-per-gb = nan", "from 0 to 1000000"},
		{"without end", "egress-per-gb = inf", "from 0 to 1000000"},
		{"a text", "egress-per-gb = \"1\"", "egress-per-gb"},
		{"no TOML", "egress-per-gb 1", "toml"},
		{"too long", "egress-per-gb = 1\n#" + strings.Repeat("x", maxPriceFile), "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "price.toml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := ReadPrice(path)
			if c.says == "" {
				if err != nil || p == nil {
					t.Errorf("%v", err)
				}
				return
			}
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := ReadPrice(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a file that is missing: %v", err)
	}
}

// measured is a trial run over 8 shards with 4 slots: 10 s, of them 8 s with shards in work, of which 3 of 4 s copied.
func measured() Measured {
	return Measured{
		Wall: 10 * time.Second, Busy: 8 * time.Second, Leases: 32 * time.Second, Slots: 4, Shards: 8, Setup: 4 * time.Second, Copying: 24 * time.Second,
		Load: Sustained{Rate: 8_000_000, Least: 7_000_000, Most: 10_000_000, Steady: true, Requests: 2, Body: 4_400_000}, Reading: time.Second, ReadBytes: 50_000_000,
	}
}

// slowing is a measurement of 40 s, in which the indices that are filled get slower.
var slowing = Sustained{Rate: 4_000_000, Least: 4_000_000, Most: 4_000_000, Quarters: [4]Taken{{160e6, 10}, {80e6, 10}, {40e6, 10}, {40e6, 10}}, Steady: true, Requests: 1, Body: 4_400_000}

func TestEstimate(t *testing.T) {
	whole := Whole{Documents: 1_000_000, Bytes: 4_000_000_000, Largest: 500_000_000, RepositoryBytes: 1_000_000_000, RepositoryRequests: 2000}
	price := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name        string
		change      func(m *Measured, w *Whole)
		price       *Price
		second      float64
		least, most float64
		fixed       float64
		bound       string
		cost        float64
		basis       string
	}{
		// 8 MB/s: 500 s; of 10 s, 8 x 24/32 = 6 s copied, so 4 s are fixed.
		{name: "the target decides", second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending},
		{name: "the last refresh takes long", change: func(m *Measured, _ *Whole) { m.Refresh = 3 * time.Second }, second: 507, least: 407 / quicker, most: (7 + 4000./7) * slower, fixed: 7, bound: Sending},
		{name: "reading decides", change: func(m *Measured, _ *Whole) { m.ReadBytes = 2_400_000 }, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Reading},
		{name: "one shard decides", change: func(m *Measured, w *Whole) {
			w.Largest, m.Alone = 3_000_000_000, Sustained{Rate: 3e6, Least: 2e6, Most: 4e6, Steady: true}
		}, second: 1004, least: 754 / quicker, most: 1504 * slower, fixed: 4, bound: OneShard},
		{name: "one shard does not decide", change: func(m *Measured, w *Whole) {
			w.Largest, m.Alone = 1_000_000_000, Sustained{Rate: 3e6, Least: 2e6, Most: 4e6, Steady: true}
		}, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending},
		{name: "fewer shards than slots", change: func(m *Measured, w *Whole) { m.Shards = 2 }, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending},
		{name: "reading is unknown", change: func(m *Measured, _ *Whole) { m.ReadBytes = 0 }, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending, basis: "rate of reading is unknown"},
		{name: "an earlier run did a part", change: func(m *Measured, _ *Whole) { m.Wall = 0 }, second: 501, least: 401 / quicker, most: (1 + 4000./7) * slower, fixed: 1, bound: Sending, basis: "an earlier run did a part"},
		{name: "a rate that did not settle", change: func(m *Measured, _ *Whole) { m.Load.Steady = false }, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending, basis: "had not settled"},
		{name: "a target that was warm", change: func(m *Measured, _ *Whole) { m.WarmUps, m.Gain, m.Warmed = 1, 0.96, 0.96 }, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending},
		{name: "a target that warmed up", change: func(m *Measured, _ *Whole) { m.WarmUps, m.Gain, m.Warmed = 2, 0.97, 2 }, second: 502, least: 402 / quicker, most: (4 + 4000./7) * slower, fixed: 2, bound: Sending, basis: "the fixed part was measured before"},
		{name: "a target that warms up a little", change: func(m *Measured, _ *Whole) { m.WarmUps, m.Gain = 3, 1.15 }, second: 504, least: (4 + 400/1.15) / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending, basis: "the fixed part was measured before"},
		{name: "a target that still warms up", change: func(m *Measured, _ *Whole) { m.WarmUps, m.Gain = 3, 2 }, price: &Price{Instance: price(36)}, least: 204 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending, cost: (4 + 4000./7) * slower / 100, basis: "still got faster when the measurement ended (2.0 times"},
		{name: "a target that was busy", change: func(m *Measured, _ *Whole) { m.Wall, m.Refused = 40*time.Second, 30*time.Second }, second: 504, least: 404 / quicker, most: (4+4000./7)*slower + 30, fixed: 4, bound: Sending, basis: "refused all requests for 30 s"},
		{name: "a short migration", change: func(m *Measured, w *Whole) { w.Bytes = 8_000_000 }, second: 5, least: 0, most: 10, fixed: 4, bound: Sending, basis: "so short a migration"},
		{name: "a short migration of a busy target", change: func(m *Measured, w *Whole) { w.Bytes, m.Refused = 8_000_000, 3*time.Second }, second: 2, least: 0, most: 10, fixed: 1, bound: Sending, basis: "so short a migration"},
		// 160, 80, 40 and 40 MB in the quarters of a measurement.
		{name: "shorter than the measurement", change: func(m *Measured, w *Whole) {
			w.Bytes, m.Load = 260_000_000, slowing
		}, second: 29, least: 29 / quicker, most: 29 * slower, fixed: 4, bound: Sending},
		{name: "longer than the measurement", change: func(m *Measured, w *Whole) {
			w.Bytes, m.Load = 1_120_000_000, slowing
		}, second: 4 + 40 + 200, least: 244 / quicker, most: 244 * slower, fixed: 4, bound: Sending},
		{name: "one shard that is longer than its measurement", change: func(m *Measured, w *Whole) {
			w.Largest, m.Alone = 3_000_000_000, slowing
		}, second: 4 + 40 + 670, least: 714 / quicker, most: 714 * slower, fixed: 4, bound: OneShard},
		{name: "a quarter in which nothing was answered", change: func(m *Measured, w *Whole) {
			w.Bytes, m.Load = 260_000_000, slowing
			m.Load.Quarters[0].Bytes = 0
		}, second: 4 + 40 + 25, least: 69 / quicker, most: 69 * slower, fixed: 4, bound: Sending},
		{name: "no documents", change: func(m *Measured, w *Whole) { w.Bytes = 0 }, second: 4, least: 0, most: 10, fixed: 4, bound: Sending, basis: "so short a migration"},
		{name: "prices", price: &Price{Requests: price(0.5), Egress: price(3), Instance: price(36)}, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending, cost: 1 + 3 + 5.04},
		{name: "one price", price: &Price{Egress: price(3)}, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending, cost: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, w := measured(), whole
			if c.change != nil {
				c.change(&m, &w)
			}
			e, ok := Of(m, w, c.price)
			if !ok {
				t.Fatal("no estimate")
			}
			near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6*max(1, b) }
			if !near(e.Seconds, c.second) || !near(e.Least, c.least) || !near(e.Most, c.most) || !near(e.Fixed, c.fixed) || e.Bound != c.bound || e.Setup <= 0 {
				t.Errorf("%+v", e)
			}
			if sending := float64(w.Bytes) / e.SendRate; e.Seconds > 0 && c.bound == Sending && m.Refused == 0 && !near(e.Fixed+sending, e.Seconds) || !near(e.RequestRate/m.Load.Requests, e.SendRate/m.Load.Rate) {
				t.Errorf("%.1f s of sending: %+v", sending, e)
			}
			if (c.price == nil) != (e.Cost == nil) || e.Cost != nil && !near(e.Cost.Total, c.cost) {
				t.Errorf("cost %+v", e.Cost)
			}
			if text := strings.Join(e.Basis, "\n"); !strings.Contains(text, c.basis) || c.basis == "" && len(e.Basis) != 1 {
				t.Errorf("%s", text)
			}
		})
	}
	for _, change := range []func(m *Measured){func(m *Measured) { m.Load = Sustained{} }, func(m *Measured) { m.Shards = 0 }} {
		m := measured()
		change(&m)
		if e, ok := Of(m, whole, nil); ok {
			t.Errorf("of nothing: %+v", e)
		}
	}
}
