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
		Load: Rate{Mean: 8_000_000, Gain: 1, Least: 7_000_000, Most: 10_000_000, Requests: 2, Body: 4_400_000}, Reading: time.Second, ReadBytes: 50_000_000,
	}
}

func TestOf(t *testing.T) {
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
		{name: "one shard decides", change: func(_ *Measured, w *Whole) { w.Largest = 3_000_000_000 }, second: 1504, least: 404 / quicker, most: (4 + 12000./7) * slower, fixed: 4, bound: OneShard, basis: "one shard has most of the documents"},
		{name: "fewer shards than slots", change: func(m *Measured, _ *Whole) { m.Shards = 2 }, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending},
		{name: "reading is unknown", change: func(m *Measured, _ *Whole) { m.ReadBytes = 0 }, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending, basis: "rate of reading is unknown"},
		{name: "an earlier run did a part", change: func(m *Measured, _ *Whole) { m.Wall = 0 }, second: 501, least: 401 / quicker, most: (1 + 4000./7) * slower, fixed: 1, bound: Sending, basis: "an earlier run did a part"},
		{name: "a target that gained no more than by chance", change: func(m *Measured, _ *Whole) { m.Load.Gain = 1.05 }, second: 504, least: 404 / quicker, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending},
		{name: "a target that still warms up", change: func(m *Measured, _ *Whole) { m.Load.Gain = 2 }, second: 504, least: 0, most: (4 + 4000./7) * slower, fixed: 4, bound: Sending, basis: "still got faster when the measurement ended (2.0 times"},
		{name: "a target that stood still for a while", change: func(m *Measured, _ *Whole) { m.Load.Least = 0 }, second: 504, least: 404 / quicker, most: 5004 * slower, fixed: 4, bound: Sending},
		{name: "a short migration", change: func(_ *Measured, w *Whole) { w.Bytes, w.Largest = 8_000_000, 1_000_000 }, second: 5, least: 0, most: 10, fixed: 4, bound: Sending, basis: "so short a migration"},
		{name: "no documents", change: func(_ *Measured, w *Whole) { w.Bytes, w.Largest = 0, 0 }, second: 4, least: 0, most: 10, fixed: 4, bound: Sending, basis: "so short a migration"},
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
			if (c.price == nil) != (e.Cost == nil) || e.Cost != nil && !near(e.Cost.Total, c.cost) {
				t.Errorf("cost %+v", e.Cost)
			}
			if text := strings.Join(e.Basis, "\n"); !strings.Contains(text, c.basis) || c.basis == "" && len(e.Basis) != 1 {
				t.Errorf("%s", text)
			}
		})
	}
	for _, change := range []func(m *Measured){func(m *Measured) { m.Load = Rate{} }, func(m *Measured) { m.Shards = 0 }} {
		m := measured()
		change(&m)
		if e, ok := Of(m, whole, nil); ok {
			t.Errorf("of nothing: %+v", e)
		}
	}
}
