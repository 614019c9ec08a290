package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func bytesOf(n int64) *int64 { return &n }

// TestOrders_GiveSet: values are set and removed one by one; other orders keep them.
func TestOrders_GiveSet(t *testing.T) {
	c := intentCoordinator(t)
	for _, x := range []struct {
		order session.Order
		since string
		is    string
	}{
		{session.Order{Kind: session.OrderSet, Setting: session.MaxRate, Value: bytesOf(20 << 20)}, "set max-rate 20MiB", "max-rate 20MiB"},
		{session.Order{Kind: session.OrderSet, Setting: session.MaxLatency, Value: bytesOf(1500)}, "set target-max-latency 1.5s", "max-rate 20MiB, target-max-latency 1.5s"},
		{session.Order{Kind: session.OrderPause}, "pause", "max-rate 20MiB, target-max-latency 1.5s"},
		{session.Order{Kind: session.OrderSet, Setting: session.MaxReadRate, Value: bytesOf(1000)}, "set max-read-rate 1000", "max-rate 20MiB, max-read-rate 1000, target-max-latency 1.5s"},
		{session.Order{Kind: session.OrderSet, Setting: session.MaxRate}, "set max-rate default", "max-read-rate 1000, target-max-latency 1.5s"},
		{session.Order{Kind: session.OrderSet, Setting: session.MaxReadRate, Value: bytesOf(0)}, "set max-read-rate 0", "max-read-rate 0, target-max-latency 1.5s"},
	} {
		before, err := session.OrdersOf(c).Intent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x.order.Who = "ann"
		give(t, c, x.order)
		i, err := session.OrdersOf(c).Intent(t.Context())
		if err != nil || i.Since(before) != x.since || i.Set.String() != x.is || i.Same(before) {
			t.Errorf("%q makes %q, %v; want %q and %q", i.Since(before), i.Set.String(), err, x.since, x.is)
		}
	}
	i, err := session.OrdersOf(c).Intent(t.Context())
	if err != nil || i.Set.Of(session.MaxRate, 7) != 7 || i.Set.Of(session.MaxReadRate, 7) != 0 || i.Set.Latency(time.Hour) != 1500*time.Millisecond || (session.Limits{}).Latency(time.Microsecond) != time.Microsecond {
		t.Errorf("%+v, %v", i, err)
	}
}

// TestOrders_SetIsBounded: values beyond the limits are refused, in orders and in records of other writers.
func TestOrders_SetIsBounded(t *testing.T) {
	set := session.OrderSet
	for name, o := range map[string]session.Order{
		"an unknown setting":       {Kind: set, Setting: "slots", Value: bytesOf(1)},
		"no setting":               {Kind: set, Value: bytesOf(1)},
		"less than nothing":        {Kind: set, Setting: session.MaxRate, Value: bytesOf(-1)},
		"more than any rate":       {Kind: set, Setting: session.MaxReadRate, Value: bytesOf(1<<50 + 1)},
		"more than an hour":        {Kind: set, Setting: session.MaxLatency, Value: bytesOf(3_600_001)},
		"of single nodes":          {Kind: set, Setting: session.MaxRate, Value: bytesOf(1), Nodes: []string{"a"}},
		"a value of another order": {Kind: session.OrderResume, Value: bytesOf(1)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := session.OrdersOf(intentCoordinator(t)).Issue(t.Context(), o); !errors.Is(err, fault.ErrConfig) {
				t.Errorf("error %v", err)
			}
		})
	}
	for name, body := range map[string]string{
		"a negative rate in a record":  `{"who":"x","set":{"max_rate":-5}}`,
		"a latency of years":           `{"who":"x","set":{"target_max_latency_ms":99999999999}}`,
		"a number beyond all integers": `{"who":"x","set":{"max_read_rate":1e300}}`,
		"no number":                    `{"who":"x","set":{"max_rate":"20MiB"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := intentCoordinator(t)
			if _, err := c.Store().Put(t.Context(), cms.Record{ID: "intent:fleet", Kind: "intent", State: "RUN", Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
			if i, err := session.OrdersOf(c).Intent(t.Context()); err == nil {
				t.Errorf("it is taken as %+v", i)
			}
			give(t, c, session.Order{Kind: set, Setting: session.MaxRate, Value: bytesOf(1), Who: "ann"}) // is written over it
			if i, err := session.OrdersOf(c).Intent(t.Context()); err != nil || i.Set.String() != "max-rate 1" {
				t.Errorf("%+v, %v", i, err)
			}
		})
	}
}
