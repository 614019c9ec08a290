package cms_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/fault"
)

func intentCoordinator(t *testing.T) *cms.Coordinator {
	t.Helper()
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := cms.New(cms.Config{Store: store, Creator: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAFleetRunsUntilSomebodySaysOtherwise(t *testing.T) {
	c := intentCoordinator(t)
	i, err := c.Intent(t.Context())
	if err != nil || i.State != cms.Run || i.Workers != nil || !i.When.IsZero() {
		t.Fatalf("%+v, %v", i, err)
	}
	eight := 8
	if _, err := c.SetIntent(t.Context(), "ann", func(i *cms.Intent) { i.Workers = &eight }); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetIntent(t.Context(), "bob", func(i *cms.Intent) { i.State = cms.Pause }); err != nil {
		t.Fatal(err)
	}
	i, err = c.Intent(t.Context())
	if err != nil || i.State != cms.Pause || i.Workers == nil || *i.Workers != 8 || i.Who != "bob" || time.Since(i.When).Abs() > time.Minute {
		t.Errorf("%+v, %v: pausing must keep the wanted number", i, err)
	}
}

func TestIntentsOfTwoOperatorsAreBothKept(t *testing.T) {
	c := intentCoordinator(t)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() {
		n := 3
		_, errs[0] = c.SetIntent(t.Context(), "ann", func(i *cms.Intent) { i.Workers = &n })
	})
	wg.Go(func() {
		_, errs[1] = c.SetIntent(t.Context(), "bob", func(i *cms.Intent) { i.State = cms.Drain })
	})
	wg.Wait()
	i, err := c.Intent(t.Context())
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if i.State != cms.Drain || i.Workers == nil || *i.Workers != 3 {
		t.Errorf("%+v", i)
	}
}

func TestAnIntentThatMeansNothingIsRefused(t *testing.T) {
	c := intentCoordinator(t)
	minus, many := -1, cms.MaxWorkers+1
	for _, change := range []func(*cms.Intent){
		func(i *cms.Intent) { i.State = "STOP" },
		func(i *cms.Intent) { i.Workers = &minus },
		func(i *cms.Intent) { i.Workers = &many },
	} {
		if _, err := c.SetIntent(t.Context(), "ann", change); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("error %v", err)
		}
	}
	if i, err := c.Intent(t.Context()); err != nil || i.State != cms.Run || !i.When.IsZero() {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestNodesAreDrainedOneByOneAndBesideTheFleet(t *testing.T) {
	c := intentCoordinator(t)
	i, err := c.SetIntent(t.Context(), "ann", func(i *cms.Intent) { i.Drained = []string{"b"} })
	if err != nil || !i.Drains("b") || i.Drains("a") {
		t.Fatalf("%+v, %v", i, err)
	}
	if i, err = c.SetIntent(t.Context(), "bob", func(i *cms.Intent) { i.State = cms.Drain }); err != nil || !i.Drains("a") {
		t.Errorf("%+v, %v", i, err)
	}
	read, err := c.Intent(t.Context())
	if err != nil || !read.Same(i) || read.Same(cms.Intent{State: cms.Drain}) {
		t.Errorf("%+v, %v", read, err)
	}
	if _, err := c.SetIntent(t.Context(), "ann", func(i *cms.Intent) { i.Drained = make([]string, cms.MaxDrained+1) }); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("too many: %v", err)
	}
}
