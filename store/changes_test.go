package store

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// follower holds what a list of changes has told it.
type follower struct {
	kind  string
	hints map[string]Hint
	index uint64
}

func (f *follower) pull(t testing.TB, m *fsm, now int64) (pages int) {
	t.Helper()
	for {
		c, err := m.changes(f.kind, f.index, time.UnixMilli(now))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range c.Hints {
			f.hints[h.Key] = h
		}
		f.index = c.Index
		if pages++; !c.More {
			return pages
		}
	}
}

func TestWhoFollowsTheChangesHasWhatIsListed(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	m, other := testMachine(t, maxBytes), testMachine(t, maxBytes)
	often, atEnd := &follower{"k", map[string]Hint{}, 0}, &follower{"k", map[string]Hint{}, 0}
	for i := range 300 {
		l := entry(t, command{Put: []Hint{
			hint("k", fmt.Sprint(rng.IntN(60)), 1000, fmt.Sprint(i)), hint("other", fmt.Sprint(i), 1000, "1"),
		}})
		l.Index = uint64(10 + i)
		m.Apply(l)
		if rng.IntN(20) == 0 {
			often.pull(t, m, 1)
		}
		if i == 200 { // the list is part of a snapshot
			snap, err := m.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			sink := &memorySink{}
			if err := snap.Persist(sink); err != nil {
				t.Fatal(err)
			}
			snap.Release()
			if err := other.Restore(io.NopCloser(bytes.NewReader(sink.Bytes()))); err != nil {
				t.Fatal(err)
			}
			m = other
		}
	}
	for _, f := range []*follower{often, atEnd} {
		f.pull(t, m, 1)
		got := []Hint{}
		for _, h := range f.hints {
			got = append(got, h)
		}
		slices.SortFunc(got, func(a, b Hint) int { return strings.Compare(a.Key, b.Key) })
		if want := listed(t, m, "k", 1); !reflect.DeepEqual(got, want) || f.index != 309 {
			t.Errorf("%d hints up to %d, want %d", len(got), f.index, len(want))
		}
	}
	if c, err := m.changes("k", 309, time.UnixMilli(1)); err != nil || len(c.Hints) != 0 || c.Index != 309 {
		t.Errorf("nothing has changed: %+v, %v", c, err)
	}
	if c, err := m.changes("k", 1<<40, time.UnixMilli(1)); err != nil || len(c.Hints) != 0 || c.Index != 309 {
		t.Errorf("a node that is behind: %+v, %v", c, err)
	}
	if c, _ := m.changes("k", 0, time.UnixMilli(2000)); len(c.Hints) != 0 {
		t.Errorf("expired hints are listed: %d", len(c.Hints))
	}
	m.Apply(&raft.Log{Type: raft.LogCommand, Index: 400, Data: entry(t, command{Sweep: 2000}).Data})
	if c, _ := m.changes("k", 0, time.UnixMilli(1)); len(c.Hints) != 0 || c.Index != 400 {
		t.Errorf("swept hints are listed: %+v", c)
	}
}

func TestManyChangesComeInPages(t *testing.T) {
	m, payload := testMachine(t, maxBytes), `"`+strings.Repeat("x", maxPayload-2)+`"`
	for i := range 8 {
		var put []Hint
		for n := range maxBatch {
			put = append(put, hint("k", fmt.Sprint(i, " ", n), 1000, payload))
		}
		l := entry(t, command{Put: put})
		l.Index = uint64(i + 1)
		m.Apply(l)
	}
	f := &follower{"k", map[string]Hint{}, 0}
	if pages := f.pull(t, m, 1); pages != 8 || len(f.hints) != 8*maxBatch {
		t.Errorf("%d hints in %d pages", len(f.hints), pages)
	}
}
