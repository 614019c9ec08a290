package follow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// chain returns the rounds of a session over a repository with the snapshots snap-1 and snap-3.
func chain(t *testing.T) *follow.Chain {
	t.Helper()
	store := boltstore.Open(t)
	return &follow.Chain{Root: cms.New(cms.Config{Store: store, Creator: "test"}), Session: "s", Clock: timing.SystemClock(), Repo: made(t), Open: unstarted, Log: slog.New(slog.DiscardHandler)}
}

// unstarted finds no records of a later round.
func unstarted(context.Context, follow.Round) (*cms.Coordinator, func() error, error) {
	return nil, nil, cms.ErrStoreGone
}

// made returns a repository with the snapshots snap-1 and snap-3, which also lists snapshots made-0 to made-99.
func made(t *testing.T) repo.Repository {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(history(t))); err != nil {
		t.Fatal(err)
	}
	catalog := filepath.Join(dir, "index-3")
	body, err := os.ReadFile(catalog)
	if err != nil {
		t.Fatal(err)
	}
	var listed strings.Builder
	for n := range 100 {
		fmt.Fprintf(&listed, `{"name":"made-%d","uuid":"id-%d","state":1,"version":"7.10.2"},`, n, n)
	}
	body = bytes.Replace(body, []byte(`"snapshots":[`), []byte(`"snapshots":[`+listed.String()), 1)
	if err := os.WriteFile(catalog, body, 0o600); err != nil {
		t.Fatal(err)
	}
	blobs, err := repo.Open(t.Context(), "file://"+dir, repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

func history(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../testing/fixtures/7.10.2-history")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// settings are those of a migration of every index.
var settings = map[string]string{"index-allowlist": "", "include-system": "false"}

// begun records the session of round 0 as its own processes do.
func begun(t *testing.T, c *follow.Chain, more map[string]string) {
	t.Helper()
	of := maps.Clone(settings)
	maps.Copy(of, more)
	if _, err := session.IdentityOf(c.Root).Init(t.Context(), session.Meta{Settings: of}); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, c *follow.Chain, snapshot string) (follow.Round, bool) {
	t.Helper()
	r, due, err := c.Next(t.Context(), snapshot, nil, settings)
	if err != nil {
		t.Fatal(err)
	}
	return r, due
}

func arrive(t *testing.T, c *follow.Chain, r follow.Round, snapshot string, failed int64) follow.Over {
	t.Helper()
	sum := &summary.Summary{Snapshot: snapshot, Complete: true}
	sum.Totals.Failed = failed
	over, err := c.Arrive(t.Context(), r, "", sum)
	if err != nil {
		t.Fatal(err)
	}
	return over
}

// TestChain_RoundsFollowEachOther takes snapshots through their rounds.
func TestChain_RoundsFollowEachOther(t *testing.T) {
	c := chain(t)
	zero, due := next(t, c, "snap-1")
	if !due || zero.Number != 0 || zero.Session != "s" || zero.Follow == nil || zero.Follow.Since != "" {
		t.Errorf("%+v", zero)
	}
	begun(t, c, map[string]string{"snapshot": "snap-1", plan.FollowKey: "first"})
	if again, due := next(t, c, "snap-3"); !due || again.Number != 0 || again.Snapshot != "snap-1" {
		t.Errorf("before round 0 has arrived: %+v", again)
	}
	if last, err := c.Last(t.Context()); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("the last round that sent changes: %+v, %v", last, err)
	}
	if over := arrive(t, c, zero, "snap-1", 0); len(over.Records) > 0 || len(over.Snapshots) > 0 {
		t.Errorf("before round 0 there was %+v", over)
	}
	if r, due := next(t, c, "snap-1"); due || r.Number != 0 {
		t.Errorf("a snapshot that has arrived is due: %+v", r)
	}
	one, due := next(t, c, "snap-3")
	if !due || one.Number != 1 || one.Session != "s-round-1" || one.Follow.Since != "snap-1" || one.Snapshot != "snap-3" {
		t.Errorf("%+v, %+v", one, one.Follow)
	}
	if over := arrive(t, c, one, "snap-3", 0); len(over.Records) != 1 || over.Records[0].Number != 0 || len(over.Snapshots) > 0 {
		t.Errorf("of round 0 is not needed any more: %+v", over)
	}
	if last, err := c.Last(t.Context()); err != nil || last.Session != "s-round-1" || last.Snapshot != "snap-3" || last.Follow.Since != "snap-1" {
		t.Errorf("the last round that sent changes: %+v, %v", last, err)
	}
	for n := 2; n < 5; n++ { // rounds that make their snapshots; documents fail in round 3
		r, due := next(t, c, "")
		if !due || r.Number != n || r.Snapshot != "" {
			t.Fatalf("%+v", r)
		}
		var failed int64
		if n == 3 {
			failed = 1
		}
		if last, err := c.Last(t.Context()); err != nil || last.Number != n-1 {
			t.Errorf("the last round that has arrived while round %d is in progress: %+v, %v", n, last, err)
		}
		over := arrive(t, c, r, "made-1", failed)
		if want := n != 4; (len(over.Records) > 0) != want || want && over.Records[0].Number != n-1 {
			t.Errorf("round %d: records that can be removed: %+v", n, over)
		}
		if is := over.Snapshots; len(is) != 1 || is[0].Number != n-2 || is[0].Made != (n > 3) {
			t.Errorf("round %d: snapshot that can be deleted: %+v", n, is)
		}
	}
	if err := c.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Next(t.Context(), "", nil, settings); !errors.Is(err, session.ErrFinished) {
		t.Errorf("after the end: %v", err)
	}
}

// TestChain_AnotherProcessArrivesLate: it has shared a round that others have ended since, and removes nothing that they need.
func TestChain_AnotherProcessArrivesLate(t *testing.T) {
	c := chain(t)
	zero, _ := next(t, c, "snap-1")
	begun(t, c, map[string]string{"snapshot": "snap-1", plan.FollowKey: "first"})
	arrive(t, c, zero, "snap-1", 0)
	one, _ := next(t, c, "")
	if over := arrive(t, c, one, "made-1", 0); len(over.Records) != 1 || over.Records[0].Number != 0 {
		t.Errorf("%+v", over)
	}
	for range 2 { // before, and after the next round has started
		if over := arrive(t, c, one, "made-1", 7); len(over.Records) > 0 || len(over.Snapshots) > 0 {
			t.Errorf("removes %+v", over)
		}
		if two, _ := next(t, c, ""); two.Number != 2 || two.Follow.Since != "made-1" {
			t.Errorf("%+v", two)
		}
	}
	all, err := session.RoundsOf(c.Root).Read(t.Context())
	if err != nil || all.Rounds[1].Failed != 0 || all.Rounds[2].Arrived != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestChain_MovedIndicesAreLeftOut of the rounds that start after their cut-over; a round in progress keeps them.
func TestChain_MovedIndicesAreLeftOut(t *testing.T) {
	c := chain(t)
	zero, _ := next(t, c, "snap-1")
	begun(t, c, map[string]string{"snapshot": "snap-1", plan.FollowKey: "first"})
	arrive(t, c, zero, "snap-1", 0)
	next(t, c, "snap-3")
	for range 2 {
		if err := session.RoundsOf(c.Root).End(t.Context(), []string{"leaves", "grows"}, false); err != nil {
			t.Fatal(err)
		}
	}
	one, _ := next(t, c, "snap-3")
	if one.Number != 1 || len(one.Follow.Ended) > 0 {
		t.Errorf("%+v", one.Follow)
	}
	arrive(t, c, one, "snap-3", 0)
	two, _ := next(t, c, "")
	if two.Number != 2 || !slices.Equal(two.Follow.Ended, []string{"grows", "leaves"}) {
		t.Fatalf("%+v", two.Follow)
	}
	two.Follow.Since = "snap-1"
	for _, include := range []string{"", "grows,leaves"} {
		only, err := pattern.ParseList([]string{include})
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.New(t.Context(), c.Repo, plan.Request{SnapshotName: "snap-3", Follow: two.Follow, Indices: pattern.Selection{Include: only}})
		want := 1
		if include != "" { // all of them were cut over, and leaves is gone from the snapshot
			want = 0
		}
		if err != nil || len(p.Indices) != want || want > 0 && p.Indices[0].Name != "again" || len(p.LeftOut)+len(p.Vanished) > 0 {
			t.Fatalf("%+v, %v", p, err)
		}
	}
}

// TestChain_RefusesWhatCannotFollow records nothing of a snapshot that cannot be the next round.
func TestChain_RefusesWhatCannotFollow(t *testing.T) {
	c := chain(t)
	if err := c.Finish(t.Context()); !errors.Is(err, follow.ErrNotStarted) {
		t.Errorf("finished before the first round: %v", err)
	}
	refused := func(snapshot string, of map[string]string, words ...string) {
		t.Helper()
		_, _, err := c.Next(t.Context(), snapshot, nil, of)
		if !errors.Is(err, fault.ErrConfig) {
			t.Fatalf("%v", err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in %v", w, err)
			}
		}
	}
	refused("snap-2", settings, "no snapshot")
	zero, _ := next(t, c, "snap-3")
	begun(t, c, map[string]string{"snapshot": "snap-3", plan.FollowKey: "first"})
	arrive(t, c, zero, "snap-3", 0)
	refused("snap-1", settings, "snap-1 was not made after snap-3")
	refused("snap-4", settings, "no snapshot")
	refused("snap-1", map[string]string{"index-allowlist": "a", "include-system": "false"}, "another migration", "index-allowlist")
	all, err := session.RoundsOf(c.Root).Read(t.Context())
	if err != nil || len(all.Rounds) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestChain_RoundZeroEndsWithTheFirstChange: its own command would bring back what later rounds changed.
func TestChain_RoundZeroEndsWithTheFirstChange(t *testing.T) {
	c := chain(t)
	zero, _ := next(t, c, "snap-1")
	of := map[string]string{"snapshot": "snap-1", plan.FollowKey: "first"}
	begun(t, c, of)
	arrive(t, c, zero, "snap-1", 0)
	maps.Copy(of, settings)
	if _, err := session.IdentityOf(c.Root).Init(t.Context(), session.Meta{Settings: of}); err != nil {
		t.Errorf("before round 1: %v", err)
	}
	next(t, c, "snap-3")
	if _, err := session.IdentityOf(c.Root).Init(t.Context(), session.Meta{Settings: of}); !errors.Is(err, session.ErrFollowed) {
		t.Errorf("after it: %v", err)
	}
	if err := session.IdentityOf(c.Root).BeginUndo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Next(t.Context(), "snap-3", nil, settings); !errors.Is(err, session.ErrUndone) {
		t.Errorf("a round after an undo: %v", err)
	}
}

// TestChain_RefusesAnotherCluster: by the UUID that the global metadata of both snapshots has.
func TestChain_RefusesAnotherCluster(t *testing.T) {
	c := chain(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(history(t))); err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(t.Context(), c.Repo)
	if err != nil {
		t.Fatal(err)
	}
	later, err := catalog.Snapshot(t.Context(), "snap-3")
	if err != nil {
		t.Fatal(err)
	}
	others, err := filepath.Glob(filepath.Join(filepath.Dir(history(t)), "7.10.2-demo", "meta-*.dat"))
	if err != nil || len(others) == 0 {
		t.Fatal(others, err)
	}
	body, err := os.ReadFile(others[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, global := range map[string][]byte{"another cluster": body, "damaged": body[:len(body)/2]} {
		if err := os.WriteFile(filepath.Join(dir, "meta-"+later.UUID+".dat"), global, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.Repo, err = repo.Open(t.Context(), "file://"+dir, repo.Options{}); err != nil {
			t.Fatal(err)
		}
		if catalog, err = snapshot.OpenCatalog(t.Context(), c.Repo); err != nil {
			t.Fatal(err)
		}
		if later, err = catalog.Snapshot(t.Context(), "snap-3"); err != nil {
			t.Fatal(err)
		}
		_, err := plan.Follow{Since: "snap-1"}.Read(t.Context(), catalog, later)
		if refused := errors.Is(err, fault.ErrConfig) && strings.Contains(err.Error(), "made by the cluster"); refused != (name == "another cluster") || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChain_AMigrationIsFollowed: its documents carry no versions, so that the next round waits until its last request cannot arrive.
func TestChain_AMigrationIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chain(t)
		begun(t, c, map[string]string{"snapshot": "snap-1"})
		zero, due := next(t, c, "snap-3")
		if !due || zero.Follow != nil || zero.Snapshot != "snap-1" || zero.Session != "s" {
			t.Errorf("%+v", zero)
		}
		safe := time.Now().Add(90 * time.Second)
		if _, err := c.Arrive(t.Context(), zero, "", &summary.Summary{Snapshot: "snap-1", Complete: true, SafeFrom: &safe}); err != nil {
			t.Fatal(err)
		}
		if early := time.Until(safe); early > 0 {
			t.Errorf("round 0 has arrived %v early", early)
		}
		if one, due := next(t, c, "snap-3"); !due || one.Number != 1 || one.Follow.Since != "snap-1" {
			t.Errorf("%+v", one)
		}
	})
}

// TestChain_RoundsOfAGroup: rounds of some indices keep the bases of the others, whose snapshots stay until a round of all indices has arrived.
func TestChain_RoundsOfAGroup(t *testing.T) {
	c := chain(t)
	zero, _ := next(t, c, "snap-1")
	begun(t, c, map[string]string{"snapshot": "snap-1", plan.FollowKey: "first"})
	arrive(t, c, zero, "snap-1", 0)
	if _, _, err := c.Next(t.Context(), "", []string{"regex:("}, settings); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a group that is no pattern: %v", err)
	}
	for n, x := range []struct {
		group   []string
		since   string
		parts   string // and their groups
		deleted []int
	}{
		{nil, "snap-1", "[]", nil},
		{[]string{"a*", "b"}, "made-1", "[]", []int{0}},
		{[]string{"a*", "b"}, "made-2", "[]", nil},
		{[]string{"c"}, "made-1", "[made-3 [a* b]]", []int{2}},
		{nil, "made-1", "[made-4 [c] made-3 [a* b]]", nil},
		{nil, "made-5", "[]", []int{1, 3, 4}},
	} {
		r, due, err := c.Next(t.Context(), "", x.group, settings)
		if err != nil || !due || r.Number != n+1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if again, _ := next(t, c, ""); !slices.Equal(again.Group, x.group) || !slices.Equal(again.Follow.Group.Strings(), x.group) {
			t.Errorf("round %d in another process: %+v", r.Number, again)
		}
		var parts []any
		for _, p := range r.Follow.Parts {
			parts = append(parts, p.Since, p.Group.Strings())
		}
		if got := fmt.Sprint(parts); r.Follow.Since != x.since || got != x.parts {
			t.Errorf("round %d is compared with %s and %s, want %s and %s", r.Number, r.Follow.Since, got, x.since, x.parts)
		}
		var deleted []int
		over := arrive(t, c, r, fmt.Sprint("made-", r.Number), 0)
		for _, x := range over.Snapshots {
			deleted = append(deleted, x.Number)
		}
		if !slices.Equal(deleted, x.deleted) || len(over.Records) != 1 || over.Records[0].Number != n {
			t.Errorf("round %d: snapshots %v can be deleted, want %v; records %+v", r.Number, deleted, x.deleted, over.Records)
		}
	}
}

// TestFollow_Groups: a round of a group has its indices alone, and an index of a part is compared with that.
func TestFollow_Groups(t *testing.T) {
	c := chain(t)
	group := func(name string) pattern.List {
		l, err := pattern.ParseList([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, x := range []struct {
		name     string
		f        plan.Follow
		want     string // the indices, and the ones that vanished
		compared bool   // grows is compared with a former snapshot
	}{
		{"all", plan.Follow{Since: "snap-1"}, "[again grows] [leaves]", true},
		{"a group", plan.Follow{Since: "snap-1", Group: group("gro*")}, "[grows] []", true},
		{"a group of which the source has nothing any more", plan.Follow{Since: "snap-1", Group: group("leaves")}, "[] [leaves]", false},
		{"a part that has the index", plan.Follow{Since: "snap-1", Parts: []plan.Part{{Since: "snap-1", Group: group("grows,again")}}}, "[again grows] [leaves]", true},
		{"a part that had the index that vanished", plan.Follow{Since: "snap-1", Parts: []plan.Part{{Since: "snap-1", Group: group("leaves")}}}, "[again grows] [leaves]", true},
	} {
		body, err := json.Marshal(x.f) // as a worker gets it
		if err != nil {
			t.Fatal(err)
		}
		var f plan.Follow
		if err := json.Unmarshal(body, &f); err != nil {
			t.Fatal(err)
		}
		p, err := plan.New(t.Context(), c.Repo, plan.Request{SnapshotName: "snap-3", Follow: &f})
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		names, vanished, compared := []string{}, []string{}, false
		for _, i := range p.Indices {
			names = append(names, i.Name)
			compared = compared || i.Name == "grows" && i.Entry.Since != nil
		}
		for _, i := range p.Vanished {
			vanished = append(vanished, i.Name)
		}
		if got := fmt.Sprint(names, vanished); got != x.want || compared != x.compared {
			t.Errorf("%s: %s, %v", x.name, got, compared)
		}
	}
	gone := plan.Follow{Since: "snap-1", Parts: []plan.Part{{Since: "gone", Group: group("grows")}}}
	if _, err := plan.New(t.Context(), c.Repo, plan.Request{SnapshotName: "snap-3", Follow: &gone}); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "former snapshot gone") {
		t.Errorf("%v", err)
	}
}

// TestChain_RefusesPartialSnapshots, unless they are permitted: a shard that is missing is no shard whose documents are gone.
func TestChain_RefusesPartialSnapshots(t *testing.T) {
	c := chain(t)
	blobs, err := repo.Open(t.Context(), "file://"+filepath.Join(filepath.Dir(history(t)), "6.8.23-partial"), repo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Repo = blobs
	catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, s := range catalog.Snapshots {
		if strings.Contains(s.Name, "partial") {
			name = s.Name
		}
	}
	if _, _, err := c.Next(t.Context(), name, nil, settings); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "PARTIAL; --allow-partial") {
		t.Errorf("%s: %v", name, err)
	}
	c.AllowPartial = true
	if _, due := next(t, c, name); !due {
		t.Error("a snapshot that is permitted is not due")
	}
}
