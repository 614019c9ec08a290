package trial

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/fault"
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

// measured is a trial run over 8 shards with 4 slots: 10 s, of them 6 s in which each slot copied, 5 s with a request under way.
func measured() Measured {
	return Measured{
		Wall: 10 * time.Second, Slots: 4, Shards: 8, Setup: 4 * time.Second, Copying: 24 * time.Second, Sending: 20 * time.Second,
		Bytes: 40_000_000, Requests: 80, Body: 44_000_000, Reading: time.Second, ReadBytes: 50_000_000,
	}
}

func TestEstimate(t *testing.T) {
	whole := Whole{Documents: 1_000_000, Bytes: 4_000_000_000, Largest: 500_000_000, RepositoryBytes: 1_000_000_000, RepositoryRequests: 2000}
	price := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name   string
		change func(m *Measured, w *Whole)
		price  *Price
		second float64
		fixed  float64
		bound  string
		cost   float64
		basis  string
	}{
		// 2 MB/s and slot, 4 slots: 8 MB/s, 500 s; 10 - 24/4 = 4 s are fixed.
		{name: "the target decides", second: 504, fixed: 4, bound: Sending},
		{name: "reading decides", change: func(m *Measured, _ *Whole) { m.ReadBytes = 1_000_000 }, second: 1004, fixed: 4, bound: Reading},
		{name: "one shard decides", change: func(_ *Measured, w *Whole) { w.Largest = 3_000_000_000 }, second: 1504, fixed: 4, bound: OneShard},
		{name: "fewer shards than slots", change: func(m *Measured, w *Whole) { m.Shards, m.Copying = 2, 12*time.Second }, second: 1004, fixed: 4, bound: Sending},
		{name: "reading is not known", change: func(m *Measured, _ *Whole) { m.ReadBytes = 0 }, second: 504, fixed: 4, bound: Sending, basis: "rate of reading is not known"},
		{name: "an earlier run did a part", change: func(m *Measured, _ *Whole) { m.Wall = 0 }, second: 501, fixed: 1, bound: Sending, basis: "an earlier run did a part"},
		{name: "few bytes", change: func(m *Measured, _ *Whole) { m.Body = 1 << 20 }, second: 504, fixed: 4, bound: Sending, basis: "a larger --trial"},
		// Warm: 3 MB/s of bodies and slot, 30/11 of sources; the first request of a shard takes 0.2 s longer than its bytes.
		{name: "the first requests do not count", change: func(m *Measured, _ *Whole) {
			m.WarmSending, m.WarmBody, m.First, m.FirstBody = 13*time.Second, 39_000_000, 700*time.Millisecond, 1_500_000
		}, second: 4 + 4000.*11/30/4 + 0.2*8/4, fixed: 4, bound: Sending},
		{name: "one shard decides, with its first request", change: func(m *Measured, w *Whole) {
			m.WarmSending, m.WarmBody, m.First, m.FirstBody = 13*time.Second, 39_000_000, 700*time.Millisecond, 1_500_000
			w.Largest = 3_000_000_000
		}, second: 4 + 1100.2, fixed: 4, bound: OneShard},
		{name: "a first request that is as fast as others", change: func(m *Measured, _ *Whole) {
			m.WarmSending, m.WarmBody, m.First, m.FirstBody = 13*time.Second, 39_000_000, 100*time.Millisecond, 1_500_000
		}, second: 4 + 4000.*11/30/4, fixed: 4, bound: Sending},
		{name: "prices", price: &Price{Requests: price(0.5), Egress: price(3), Instance: price(36)}, second: 504, fixed: 4, bound: Sending, cost: 1 + 3 + 5.04},
		{name: "one price", price: &Price{Egress: price(3)}, second: 504, fixed: 4, bound: Sending, cost: 3},
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
			if !near(e.Seconds, c.second) || !near(e.Fixed, c.fixed) || e.Bound != c.bound || e.Setup <= 0 {
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
	for _, change := range []func(m *Measured){func(m *Measured) { m.Bytes = 0 }, func(m *Measured) { m.Sending = 0 }, func(m *Measured) { m.Shards = 0 }} {
		m := measured()
		change(&m)
		if e, ok := Of(m, whole, nil); ok {
			t.Errorf("of nothing: %+v", e)
		}
	}
}
