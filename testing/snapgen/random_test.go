package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/truth"
)

var seed = flag.Uint64("seed", 0, "the seed of a random history of snapshots to run again")

// TestRandomSnapshots makes random histories on real nodes: mappings, settings, documents, updates, deletions, merges, resized and
// restored indices, deleted snapshots. It exports each remaining snapshot and compares it with the cluster's answers. RFSD_RANDOM
// lists the versions ("os2.19.4 7.17.29"). With RFSD_RANDOM_TURN a run takes two of them, which change daily.
func TestRandomSnapshots(t *testing.T) {
	versions := strings.Fields(os.Getenv("RFSD_RANDOM"))
	if len(versions) == 0 {
		t.Skip("not run: random histories of snapshots (RFSD_RANDOM names versions)")
	}
	if os.Getenv("RFSD_RANDOM_TURN") != "" {
		day := int(time.Now().Unix() / (24 * 3600))
		versions = []string{versions[day%len(versions)], versions[(day+1)%len(versions)]}
	}
	programs := t.TempDir()
	rfsd, rfsctl := filepath.Join(programs, "rfsd"), filepath.Join(programs, "rfsctl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "../../cmd/rfsd", "../../cmd/rfsctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			number := *seed
			if number == 0 {
				number = rand.Uint64()
			}
			t.Logf("RFSD_RANDOM=%s go test ./testing/snapgen -run RandomSnapshots -seed=%d", version, number)
			l, err := newLab("random")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := l.close(); err != nil {
					t.Error(err)
				}
			})
			h := &history{lab: l, dice: rand.New(rand.NewPCG(number, 0)), indices: map[string]*grown{}}
			if err := h.run(t.Context(), version); err != nil {
				t.Fatalf("%v\nafter\n%s\n%s", err, strings.Join(h.log, "\n"), h.unassigned(t.Context()))
			}
			compared, names := 0, slices.Sorted(maps.Keys(l.truths))
			for _, name := range names {
				compared += len(l.truths[name])
				if fault := exported(t, rfsd, l, name); fault != "" {
					t.Errorf("snapshot %s: %s", name, fault)
				}
			}
			differ := 0
			for i, since := range names {
				for _, name := range names[i+1:] {
					n, faults := different(t, rfsctl, l, version < "6", since, name)
					differ += n
					for _, fault := range faults {
						t.Errorf("snapshots %s and %s: %s", since, name, fault)
					}
				}
			}
			followed(t, rfsd, l, names)
			t.Logf("%d snapshots, %d documents, %d of them differ between two; the history:\n%s", len(l.truths), compared, differ, strings.Join(h.log, "\n"))
		})
	}
}

// exported returns how an export of a snapshot differs from the cluster's answers; "" if it does not.
func exported(t *testing.T, rfsd string, l *lab, name string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), rfsd, "migrate", "--repo-uri", l.repo(), "--snapshot-name", name, "--export-dir", "out", "--include-system")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	lines := filepath.Join(dir, "truth.gz")
	if err := writeTruth(lines, l.truths[name]); err != nil {
		t.Fatal(err)
	}
	want, err := truth.Load(false, lines)
	if err != nil {
		t.Fatal(err)
	}
	got, err := truth.LoadExport(filepath.Join(dir, "out"))
	if err != nil {
		return err.Error()
	}
	for k, source := range maps.Clone(got) { // targets have no mapping types
		delete(got, k)
		k.Type = ""
		got[k] = source
	}
	return truth.Compare(want, got).Faults()
}

// followed follows the snapshots of a history to a target, and compares the target with each snapshot after its round.
func followed(t *testing.T, rfsd string, l *lab, names []string) {
	t.Helper()
	to, dir := cluster.OpenSearch(t, draw.Of(t, 1, []string{"2.19.4", "3.8.0"})[0]), t.TempDir()
	to.Wipe(t) // it is shared by the histories
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), rfsd, append(args, "--repo-uri", l.repo(), "--target-host", to.URL, "--include-system")...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("rfsd %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for i, name := range names {
		run("follow", "--once", "--snapshot-name", name, "--session-name", "history")
		run("verify", "--snapshot-name", name)
		if again := run("follow", "--once", "--snapshot-name", name, "--session-name", "history"); !strings.Contains(again, fmt.Sprintf("has arrived in round %d: nothing was sent", i)) {
			t.Errorf("round %d again: %s", i, again)
		}
	}
}

// counts are the numbers of differing and equal documents of an index in two snapshots.
type counts struct{ Inserted, Updated, Deleted, Unchanged int }

// different returns the number of documents that differ between two snapshots, and where rfsctl snapshot diff deviates from the
// cluster's answers. nested: unchanged documents include nested ones.
func different(t *testing.T, rfsctl string, l *lab, nested bool, since, name string) (n int, faults []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rfsctl, "snapshot", "diff", "--repo-uri", l.repo(), "--since", since, "--snapshot-name", name, "--read-documents", "--output", "json")
	out, err := cmd.Output()
	if err != nil {
		return 0, []string{fmt.Sprintf("%v: %s", err, out)}
	}
	var got struct {
		Indices []struct {
			counts
			Index, State string
			Remarks      []string
		}
	}
	if err := outputtest.Decode(out, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]counts{}
	was := map[string]string{}
	key := func(d document) string { return strings.Join([]string{d.Index, d.Type, d.ID, d.Routing}, "\x00") }
	for _, d := range l.truths[since] {
		was[key(d)] = d.Line + string(d.Source)
		w := want[d.Index]
		w.Deleted++
		want[d.Index] = w
	}
	for _, d := range l.truths[name] {
		source, there := was[key(d)]
		w := want[d.Index]
		switch {
		case !there:
			w.Inserted++
		case source != d.Line+string(d.Source):
			w.Updated++
			w.Deleted--
		default:
			w.Unchanged++
			w.Deleted--
		}
		want[d.Index] = w
	}
	for _, x := range got.Indices {
		if x.State != "compared" {
			continue
		}
		w, g := want[x.Index], x.counts
		if g.Updated > w.Updated && g.Updated <= w.Updated+w.Unchanged { // written again with the same source
			w.Unchanged, w.Updated = w.Unchanged-(g.Updated-w.Updated), g.Updated
		}
		if nested {
			g.Unchanged = min(g.Unchanged, w.Unchanged)
		}
		n += g.Inserted + g.Updated + g.Deleted
		if g != w || len(x.Remarks) > 0 {
			faults = append(faults, fmt.Sprintf("index %s: %+v %v, want %+v", x.Index, g, x.Remarks, w))
		}
	}
	return n, faults
}

// grown is an index and the routing of its live documents by id.
type grown struct {
	shards int
	live   map[string]string
	plain  map[string]bool // ids whose sources a cluster can update
	n      int
}

// history is a sequence of changes.
type history struct {
	*lab
	dice    *rand.Rand
	indices map[string]*grown
	made    int
	log     []string
}

func (h *history) tell(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// run boots a node and makes a history with several snapshots.
func (h *history) run(ctx context.Context, version string) error {
	if err := h.boot(ctx, version); err != nil {
		return err
	}
	settings := map[string]any{"chunk_size": []string{"1kb", "7kb", "1mb"}[h.dice.IntN(3)], "compress": h.dice.IntN(2) == 0}
	if err := h.register(ctx, settings); err != nil {
		return err
	}
	for i := range 4 + h.dice.IntN(3) {
		for range 3 + h.dice.IntN(6) {
			if err := h.change(ctx); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("snap-%d", i)
		h.tell("snapshot %s", name)
		if err := h.take(ctx, name, strings.Join(slices.Sorted(maps.Keys(h.indices)), ",")); err != nil {
			return err
		}
		if left := slices.Sorted(maps.Keys(h.truths)); len(left) > 2 && h.dice.IntN(3) == 0 {
			gone := left[h.dice.IntN(len(left))]
			h.tell("delete snapshot %s", gone)
			if err := h.put(ctx, http.MethodDelete, "/_snapshot/fixture/"+gone, nil); err != nil {
				return err
			}
			delete(h.truths, gone)
		}
	}
	return h.stop()
}

// unassigned returns the node's report about its shards, if it still answers.
func (h *history) unassigned(ctx context.Context) string {
	if h.node == nil {
		return ""
	}
	const path = "/_cat/shards?h=index,shard,prirep,state,unassigned.reason,unassigned.details"
	b, err := h.Send(ctx, http.MethodGet, path, "", nil)
	return fmt.Sprintf("%s: %.3000s %v", path, b, err)
}

// change makes one random change to an index.
func (h *history) change(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(h.indices))
	if len(names) == 0 || len(names) < 6 && h.dice.IntN(5) == 0 {
		return h.newIndex(ctx)
	}
	name := names[h.dice.IntN(len(names))]
	switch what := h.dice.IntN(12); what {
	case 0:
		h.tell("flush %s", name)
		return h.put(ctx, http.MethodPost, "/"+name+"/_flush", nil)
	case 1:
		n := 1 + h.dice.IntN(2)
		h.tell("merge %s to %d segments", name, n)
		return h.put(ctx, http.MethodPost, fmt.Sprintf("/%s/_forcemerge?max_num_segments=%d", name, n), nil)
	case 2:
		return h.resize(ctx, name)
	case 3:
		return h.restore(ctx, name)
	case 4:
		if len(names) < 3 {
			return nil
		}
		h.tell("delete %s", name)
		delete(h.indices, name)
		if err := h.put(ctx, http.MethodDelete, "/"+name, nil); err != nil || h.dice.IntN(2) == 0 {
			return err
		}
		return h.newIndexAs(ctx, name)
	}
	return h.write(ctx, name)
}

// newIndex creates an index.
func (h *history) newIndex(ctx context.Context) error {
	h.made++
	return h.newIndexAs(ctx, fmt.Sprintf("i%d", h.made))
}

// newIndexAs creates an index under a name that a deleted index may have had.
func (h *history) newIndexAs(ctx context.Context, name string) error {
	x := &grown{shards: 1 + h.dice.IntN(3), live: map[string]string{}, plain: map[string]bool{}}
	settings := fmt.Sprintf(`"number_of_shards":%d`, x.shards)
	if h.node.Version[0] == '6' {
		settings += fmt.Sprintf(`,"number_of_routing_shards":%d`, 64*x.shards) // later versions split without it
	}
	if h.dice.IntN(3) == 0 && !lacksZstd(h.node.Version) {
		settings += `,"codec":"best_compression"`
	}
	if h.dice.IntN(3) == 0 && !h.typed() {
		settings += `,"sort.field":"n","sort.order":"desc"`
	}
	extra := []string{"", `,"tag":{"type":"keyword","store":true}`, `,"tag":{"type":"keyword","doc_values":false}`, `,"at":{"type":"date"},"part":{"type":"nested"}`}
	if strings.Contains(settings, "sort.field") {
		extra = extra[:3] // sorted indices accept no nested documents
	}
	properties := plain + extra[h.dice.IntN(len(extra))]
	if h.typed() && h.node.Version[0] == '2' {
		properties = strings.ReplaceAll(properties, `"type":"keyword"`, `"type":"string","index":"not_analyzed"`)
	}
	h.tell("create %s: %s, %s", name, settings, properties)
	h.indices[name] = x
	if err := h.create(ctx, name, settings, properties); err != nil {
		return err
	}
	return h.put(ctx, http.MethodGet, "/_cluster/health/"+name+"?wait_for_status=green&timeout=60s", nil)
}

// write sends a bulk request of new documents, updates and deletions.
func (h *history) write(ctx context.Context, name string) error {
	x := h.indices[name]
	var b body
	odd, ids := oddSources(), oddIDs()
	news, updates, deletes := h.dice.IntN(80), 0, 0
	meta := func(routing string) []string {
		key := "routing"
		if h.typed() {
			key = "_routing"
		}
		if routing == "" {
			return nil
		}
		return []string{quote(key) + ":" + quote(routing)}
	}
	for range news {
		id, source := fmt.Sprint(h.dice.IntN(300)), note(h.dice.IntN(1000))
		if h.dice.IntN(4) == 0 {
			id = ids[h.dice.IntN(len(ids))]
		}
		plain := true
		switch h.dice.IntN(6) {
		case 0:
			source, plain = odd[h.dice.IntN(len(odd))], false
		case 1:
			source = fmt.Sprintf(`{"n": %d, "tag": "t%d", "at": "2024-01-0%d", "part": [{"q": 1}, {"q": 2}]}`, h.dice.IntN(100), h.dice.IntN(9), 1+h.dice.IntN(9))
		}
		routing, known := x.live[id]
		if !known && h.dice.IntN(3) == 0 {
			routing = fmt.Sprintf("r%d", h.dice.IntN(7))
		}
		b.index(id, source, meta(routing)...)
		x.live[id], x.plain[id] = routing, plain
	}
	for _, id := range slices.Sorted(maps.Keys(x.live)) {
		switch h.dice.IntN(8) {
		case 0:
			b.remove(id, meta(x.live[id])...)
			delete(x.live, id)
			deletes++
		case 1:
			if x.plain[id] {
				fmt.Fprintf(&b.b, "{\"update\":{%s}}\n{\"doc\":{\"n\":%d,\"raw\":{\"updated\":%d}}}\n", strings.Join(append([]string{`"_id":` + quote(id)}, meta(x.live[id])...), ","), h.dice.IntN(1000), x.n)
				updates++
			}
		}
	}
	x.n++
	h.tell("write %s: %d documents, %d updates, %d deletions", name, news, updates, deletes)
	if b.b.Len() == 0 {
		return nil
	}
	return h.load(ctx, name, &b)
}

// resize shrinks an index to one shard, splits it, or clones it, if the version can.
func (h *history) resize(ctx context.Context, name string) error {
	x := h.indices[name]
	how, shards := "_clone", x.shards
	switch h.dice.IntN(3) {
	case 0:
		how, shards = "_shrink", 1
	case 1:
		how, shards = "_split", x.shards*2
	}
	cannot := h.typed() && (h.node.Version < "6" || how == "_clone") // 6 shrinks and splits, earlier versions do neither
	if cannot || how == "_shrink" && x.shards == 1 || len(h.indices) > 7 {
		return nil
	}
	h.made++
	to := fmt.Sprintf("i%d", h.made)
	h.tell("%s %s to %s", how, name, to)
	h.indices[to] = &grown{shards: shards, live: maps.Clone(x.live), plain: maps.Clone(x.plain)}
	return h.steps(ctx,
		step{"PUT /" + name + "/_settings", `{"index.blocks.write":true}`},
		step{"PUT /" + name + "/" + how + "/" + to + "?wait_for_active_shards=1", fmt.Sprintf(`{"settings":{"index.number_of_shards":%d,"index.number_of_replicas":0,"index.blocks.write":null}}`, shards)},
		step{"PUT /" + name + "/_settings", `{"index.blocks.write":null}`},
		step{"GET /_cluster/health/" + to + "?wait_for_status=green&timeout=60s", ""},
	)
}

// restore restores an index of a snapshot under another name.
func (h *history) restore(ctx context.Context, name string) error {
	left := slices.Sorted(maps.Keys(h.truths))
	if len(left) == 0 || len(h.indices) > 7 {
		return nil
	}
	from := left[h.dice.IntN(len(left))]
	x := &grown{shards: h.indices[name].shards, live: map[string]string{}, plain: map[string]bool{}}
	for _, d := range h.truths[from] {
		if d.Index == name {
			x.live[d.ID] = d.Routing
		}
	}
	if len(x.live) == 0 {
		return nil // the snapshot may lack it
	}
	h.made++
	to := fmt.Sprintf("i%d", h.made)
	h.tell("restore %s of %s as %s", name, from, to)
	h.indices[to] = x
	return h.put(ctx, http.MethodPost, "/_snapshot/fixture/"+from+"/_restore?wait_for_completion=true", map[string]any{"indices": name, "rename_pattern": "^" + name + "$", "rename_replacement": to, "include_global_state": false})
}
