package session_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

func intentCoordinator(t *testing.T) *cms.Coordinator {
	t.Helper()
	store := boltstore.Open(t)
	return coordinatorOn(t, store)
}

func coordinatorOn(t *testing.T, store cms.Store) *cms.Coordinator {
	t.Helper()
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	return c
}

func give(t *testing.T, c *cms.Coordinator, o session.Order) session.Intent {
	t.Helper()
	i, err := session.OrdersOf(c).Issue(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func workers(n int) *int { return &n }

func TestAFleetRunsUntilAnOperatorGivesAnOrder(t *testing.T) {
	c := intentCoordinator(t)
	i, err := session.OrdersOf(c).Intent(t.Context())
	if err != nil || i.State != session.Run || i.Workers != nil || !i.When.IsZero() {
		t.Fatalf("%+v, %v", i, err)
	}
	give(t, c, session.Order{Kind: session.OrderScale, Workers: workers(8), Who: "ann"})
	give(t, c, session.Order{Kind: session.OrderPause, Who: "bob"})
	i, err = session.OrdersOf(c).Intent(t.Context())
	if err != nil || i.State != session.Pause || i.Workers == nil || *i.Workers != 8 || i.Who != "bob" || time.Since(i.When).Abs() > time.Minute {
		t.Errorf("%+v, %v: pausing must keep the wanted number", i, err)
	}
}

func TestOrdersAboutDifferentThingsAtOnceAreAllKept(t *testing.T) {
	c := intentCoordinator(t)
	orders := []session.Order{{Kind: session.OrderScale, Workers: workers(3)}, {Kind: session.OrderDrain}, {Kind: session.OrderDrain, Nodes: []string{"a"}}, {Kind: session.OrderDrain, Nodes: []string{"b"}}}
	errs := make([]error, len(orders))
	var wg sync.WaitGroup
	for n, o := range orders {
		wg.Go(func() { _, errs[n] = session.OrdersOf(c).Issue(t.Context(), o) })
	}
	wg.Wait()
	i, err := session.OrdersOf(c).Intent(t.Context())
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if i.State != session.Drain || i.Workers == nil || *i.Workers != 3 || !slices.Equal(i.Drained, []string{"a", "b"}) {
		t.Errorf("%+v", i)
	}
}

func TestAnOrderThatMeansNothingIsRefused(t *testing.T) {
	c := intentCoordinator(t)
	for name, o := range map[string]session.Order{
		"an unknown kind":             {Kind: "stop"},
		"fewer workers than none":     {Kind: session.OrderScale, Workers: workers(-1)},
		"more workers than a fleet's": {Kind: session.OrderScale, Workers: workers(session.MaxWorkers + 1)},
		"a pause of one node":         {Kind: session.OrderPause, Nodes: []string{"a"}},
		"a resume with a number":      {Kind: session.OrderResume, Workers: workers(1)},
		"a node without a name":       {Kind: session.OrderDrain, Nodes: []string{""}},
		"too many nodes":              {Kind: session.OrderDrain, Nodes: manyNodes(session.MaxDrained+1, "n")},
		"a node with a long name":     {Kind: session.OrderDrain, Nodes: []string{strings.Repeat("n", 300)}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := session.OrdersOf(c).Issue(t.Context(), o); !errors.Is(err, fault.ErrConfig) {
				t.Errorf("error %v", err)
			}
		})
	}
	if i, err := session.OrdersOf(c).Intent(t.Context()); err != nil || i.State != session.Run || !i.When.IsZero() {
		t.Errorf("%+v, %v", i, err)
	}
}

func manyNodes(n int, name string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = name + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + string(rune('0'+i/100%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + strings.Repeat("y", i/1000)
	}
	return all
}

func TestNodesAreDrainedOneByOneAndBesideTheFleet(t *testing.T) {
	c := intentCoordinator(t)
	i := give(t, c, session.Order{Kind: session.OrderDrain, Nodes: []string{"b", "c"}})
	if !i.Drains("b") || i.Drains("a") {
		t.Fatalf("%+v", i)
	}
	if i = give(t, c, session.Order{Kind: session.OrderDrain}); !i.Drains("a") {
		t.Errorf("%+v", i)
	}
	if i = give(t, c, session.Order{Kind: session.OrderResume, Nodes: []string{"c"}}); !slices.Equal(i.Drained, []string{"b"}) || i.State != session.Drain {
		t.Errorf("%+v", i)
	}
	read, err := session.OrdersOf(c).Intent(t.Context())
	if err != nil || !read.Same(i) || read.Same(session.Intent{State: session.Drain}) {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestIntent_Since(t *testing.T) {
	n := func(state session.FleetState, workers *int, drained ...string) session.Intent {
		return session.Intent{State: state, Workers: workers, Drained: drained}
	}
	for _, c := range []struct {
		name          string
		before, after session.Intent
		want          string
	}{
		{"the same by another", n(session.Run, workers(1)), n(session.Run, workers(1)), ""},
		{"the state", n(session.Pause, nil), n(session.Run, nil), "resume"},
		{"a number", n(session.Run, nil), n(session.Run, workers(4)), "scale 4"},
		{"no number", n(session.Run, workers(4)), n(session.Run, nil), "scale auto"},
		{"nodes", n(session.Run, nil, "a", "b"), n(session.Run, nil, "b", "c", "d"), "drain c d, resume a"},
		{"several orders", n(session.Run, nil), n(session.Drain, workers(0)), "drain, scale 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.after.Since(c.before); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
