package sim

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// historyFixture contains two snapshots of a cluster. The first round migrates one of them; each later round migrates the changes to the
// other one.
const historyFixture = "7.10.2-history"

var contents = sync.OnceValues(func() (all [2]*source, err error) {
	for i, snapshot := range []string{"snap-1", "snap-3"} {
		if all[i], err = readSource(filepath.Join("..", "fixtures", historyFixture), snapshot); err != nil {
			return all, fmt.Errorf("fixture %s: %w", historyFixture, err)
		}
	}
	return all, nil
})

// Rounds is a world in which a cluster is followed.
type Rounds struct {
	Config
	Number int
	// SameVersion gives all rounds the same version, and Forgets is the time after which the target forgets deletions. Both disable the
	// protection against late requests.
	SameVersion bool
	Forgets     time.Duration
}

// rounds is the state of such a world.
type rounds struct {
	contents [2]*source
	sends    map[operation]truth // operations that the current round may send
}

// operation names an insertion or a deletion of a document.
type operation struct {
	key
	deletes bool
}

// followed are the indices of both snapshots: one whose documents change, and one that is recreated in between.
var followed = []struct {
	name    string
	another bool
}{{"grows", false}, {"again", true}}

// RunRounds simulates the rounds in sequence, and then lets the last late requests arrive.
func RunRounds(t *testing.T, cfg Rounds) (r Report) {
	t.Helper()
	both, err := contents()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(cfg.Config, map[string]*source{historyFixture: both[0]})
		if err != nil {
			t.Error(err)
			return
		}
		w.target.forgets = cfg.Forgets
		for n := range cfg.Number {
			w.beginRound(n, both, cfg.SameVersion)
			if r = w.run(""); !r.Ended {
				return
			}
		}
		time.Sleep(2 * cfg.Held)
		w.checkDocuments(nil)
		r = w.report
		r.Problems = w.problems
	})
	return r
}

// beginRound sets the world up for a round: another session with another plan.
func (w *world) beginRound(n int, both [2]*source, sameVersion bool) {
	is, was := both[n%2], both[(n+1)%2]
	w.start, w.calm, w.over, w.seats = time.Now(), false, make(chan struct{}), nil
	w.server, w.ends = newServer(w), map[shardKey]int64{}
	w.target.mu.Lock()
	w.truth = map[key]truth{}
	w.target.mu.Unlock()
	w.rounds = &rounds{contents: both, sends: map[operation]truth{}}
	w.plan = &plan.Plan{Snapshot: "snap1", UUID: is.plan.UUID, Session: "sim", State: "SUCCESS", Source: is.plan.Source}
	version := int64(1000 + n)
	if sameVersion {
		version = 1000
	}
	for i := range w.cfg.Indices {
		of := followed[i%len(followed)]
		x, before := indexOf(is.plan, of.name), indexOf(was.plan, of.name)
		x.Name = fmt.Sprintf("i%03d", i)
		x.Entry.Naming = plan.Naming{Index: fmt.Sprintf("t%03d", i)}
		x.Entry.Ours, x.Entry.Version = nil, version
		if n == 0 {
			x.Entry.Ours = x.Entry.Naming.Targets()
			w.target.create(x.Entry.Naming.Index)
		} else {
			x.Entry.Since = &plan.Since{Locator: before.Entry.Locator, Shards: before.Entry.Shards, Another: of.another}
		}
		w.plan.Indices = append(w.plan.Indices, x)
		for shard, t := range is.shards[of.name] {
			former := shardTruth{}
			if n > 0 {
				former = was.shards[of.name][shard]
			}
			w.expectChanges(shardKey{x.Name, shard}, x.Entry.Naming.Index, t, former)
		}
	}
}

func indexOf(p *plan.Plan, name string) plan.Index {
	for _, x := range p.Indices {
		if x.Name == name {
			return x
		}
	}
	panic("no index " + name)
}

// expectChanges sets the documents of a shard expected on the target after a round, and the operations that the round may send: its
// documents, and deletions of former ones, whose ordinals follow the ordinals of the shard. With rules, as here, replaced documents are
// deleted, too.
func (w *world) expectChanges(k shardKey, target string, is, was shardTruth) {
	w.target.mu.Lock() // late requests of the former round look documents up
	defer w.target.mu.Unlock()
	w.ends[k] = is.end + was.end
	for _, d := range is.docs {
		name, t := key{target, d.id}, truth{shard: k, ordinal: d.ordinal, source: d.source}
		w.truth[name], w.rounds.sends[operation{name, false}] = t, t
	}
	for _, d := range was.docs {
		w.rounds.sends[operation{key{target, d.id}, true}] = truth{shard: k, ordinal: is.end + d.ordinal}
	}
}
