package difference

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// between returns what became of the indices between snap-1 and snap-3 of a repository.
func between(t *testing.T, dir string, opt Options) (all []Index) {
	t.Helper()
	r, err := repo.Open(t.Context(), dir, repo.Options{})
	must(t, err)
	catalog, err := snapshot.OpenCatalog(t.Context(), r)
	must(t, err)
	from, err := catalog.Snapshot(t.Context(), "snap-1")
	must(t, err)
	to, err := catalog.Snapshot(t.Context(), "snap-3")
	must(t, err)
	for x := range Snapshots(t.Context(), r, from, to, opt) {
		all = append(all, x)
	}
	return all
}

func every(string) bool { return true }

func numbers(selected func(string) bool) Options { return Options{Selected: selected, Memory: 1 << 20} }

func TestSnapshots_StatesOfIndices(t *testing.T) {
	changed := Shard{Counts: Counts{New: 12, Gone: 21, Unchanged: 19}}
	for fixture, grows := range map[string]Shard{
		"2.4.6-history": {Whole: NoNumbers}, "7.10.2-history": changed, "8.19.21-history": changed, "os2.19.4-history": changed,
	} {
		t.Run(fixture, func(t *testing.T) {
			again := Index{Name: "again", State: Recreated}
			want := []Index{again, {Name: "grows", State: Compared, Shards: []Shard{grows}}, {Name: "leaves", State: Removed}}
			if got := between(t, filepath.Join(fixtures, fixture), numbers(every)); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := between(t, filepath.Join(fixtures, "7.10.2-history"), numbers(func(name string) bool { return name == "leaves" })); len(got) != 1 || got[0].State != Removed {
		t.Errorf("of a selection: %+v", got)
	}
}

func TestSnapshots_AMissingBlobIsNamed(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(fixtures, "7.10.2-history"))))
	for _, list := range []string{"snap-*.dat", "index-*"} {
		blobs, err := filepath.Glob(filepath.Join(dir, "indices", "*", "0", list))
		must(t, err)
		for _, blob := range blobs {
			must(t, os.Remove(blob))
		}
	}
	for _, x := range between(t, dir, numbers(func(name string) bool { return name == "grows" })) {
		if len(x.Shards) != 1 || x.Shards[0].Err == nil || x.Shards[0].Counts != (Counts{}) {
			t.Errorf("%+v", x)
		}
	}
}

// damaged is a commit with one byte of a file changed.
type damaged struct {
	lucene.Directory
	name string
	at   int64
	xor  byte
}

func (d damaged) Open(name string) (lucene.File, error) {
	f, err := d.Directory.Open(name)
	if err == nil && name == d.name {
		return damagedFile{f, d}, nil
	}
	return f, err
}

type damagedFile struct {
	lucene.File
	of damaged
}

func (f damagedFile) ReadAt(ctx context.Context, p []byte, off int64) error {
	err := f.File.ReadAt(ctx, p, off)
	if i := f.of.at - off; err == nil && i >= 0 && i < int64(len(p)) {
		p[i] ^= f.of.xor
	}
	return err
}

func (f damagedFile) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := f.File.Stream(ctx, off, n)
	return &damagedStream{r, f.of, off}, err
}

type damagedStream struct {
	io.ReadCloser
	of damaged
	at int64
}

func (s *damagedStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if i := s.of.at - s.at; i >= 0 && i < int64(n) {
		p[i] ^= s.of.xor
	}
	s.at += int64(n)
	return n, err
}

// directories are the first shard of an index in two snapshots of a repository.
func directories(t testing.TB, repository, index string, names ...string) (dirs [2]lucene.Directory) {
	t.Helper()
	r, err := repo.Open(t.Context(), repository, repo.Options{})
	must(t, err)
	catalog, err := snapshot.OpenCatalog(t.Context(), r)
	must(t, err)
	for i, name := range names {
		s, err := catalog.Snapshot(t.Context(), name)
		must(t, err)
		x, err := s.Index(t.Context(), index)
		must(t, err)
		shard, err := snapshot.OpenShard(t.Context(), r, x.Locator, 0)
		must(t, err)
		dirs[i] = shard.Directory()
	}
	return dirs
}

// how describes a way of reading the difference of two commits.
type how struct {
	merged   bool // as if no segment were in both
	contents bool
}

// open returns a reader of the difference of two directories.
func open(ctx context.Context, dirs [2]lucene.Directory, how how) (*Reader, error) {
	var commits [2]*lucene.Commit
	for i, dir := range dirs {
		var err error
		if commits[i], err = lucene.Open(ctx, dir, lucene.Options{}); err != nil {
			return nil, err
		}
	}
	r := NewByContents(commits[0], commits[1], 1000, false)
	if !how.contents {
		var err error
		if r, err = New(commits[0], commits[1], 20); err != nil {
			return nil, err
		}
	}
	if how.merged {
		clear(r.same)
	}
	return r, nil
}

// changes reads the whole difference of two commits.
func changes(t testing.TB, dirs [2]lucene.Directory, how how) (all []Change, n Counts, err error) {
	t.Helper()
	r, err := open(t.Context(), dirs, how)
	if err != nil {
		return nil, n, err
	}
	n, err = r.Read(t.Context(), Start, func(c Change) error {
		all = append(all, c)
		return nil
	}, func(int64) error { return nil })
	return all, n, err
}

// damage changes one byte of one file of one commit, and requires an error or the right difference.
func damage(t *testing.T, fixture string, commit int, file uint, at int64, xor byte, how how) (found bool) {
	t.Helper()
	dirs := directories(t, filepath.Join(fixtures, fixture), "grows", "snap-1", "snap-3")
	want, counts, err := changes(t, dirs, how)
	if err != nil {
		t.Fatal(err)
	}
	names := dirs[commit].List()
	slices.Sort(names)
	name := names[file%uint(len(names))]
	f, err := dirs[commit].Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if f.Size() == 0 || xor == 0 {
		return false
	}
	at = int64(uint64(at) % uint64(f.Size()))
	dirs[commit] = damaged{dirs[commit], name, at, xor}
	got, n, err := changes(t, dirs, how)
	var whole *Whole
	switch {
	case err == nil && (!slices.Equal(got, want) || n != counts):
		t.Fatalf("%s, byte %d ^ %d of %s of commit %d, %+v: %v, %+v; want %v", fixture, at, xor, name, commit, how, got, n, want)
	case err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) && !errors.As(err, &whole):
		t.Fatalf("byte %d ^ %d of %s: %v", at, xor, name, err)
	}
	return err != nil
}

// TestReader_DamageIsNoDifference changes bytes of either commit at random.
func TestReader_DamageIsNoDifference(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for range 300 {
		if damage(t, []string{"7.10.2-history", "os2.19.4-history"}[rng.IntN(2)], rng.IntN(2), rng.Uint(), rng.Int64(), byte(1+rng.IntN(255)), how{rng.IntN(2) == 0, rng.IntN(3) == 0}) {
			found++
		}
	}
	if found < 30 {
		t.Errorf("%d of 300 damages were found", found)
	}
}

func FuzzReader_Damage(f *testing.F) {
	f.Add(false, uint(3), int64(40), byte(1), true, false)
	f.Add(true, uint(0), int64(0), byte(255), false, false)
	f.Add(true, uint(2), int64(70), byte(16), true, true)
	f.Fuzz(func(t *testing.T, later bool, file uint, at int64, xor byte, merged, contents bool) {
		commit := 0
		if later {
			commit = 1
		}
		damage(t, "7.10.2-history", commit, file, at, xor, how{merged, contents})
	})
}

// slow is a repository whose requests take a moment. It knows from how many shards it reads at a time.
type slow struct {
	snapshot.Repository
	mu      sync.Mutex
	running map[string]int // requests by folder
	most    int            // folders of shards
}

func (s *slow) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	folder := path.Dir(name)
	s.change(folder, 1)
	defer s.change(folder, -1)
	time.Sleep(2 * time.Millisecond)
	return s.Repository.Open(ctx, name, off, n)
}

func (s *slow) change(folder string, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[folder] += by; s.running[folder] == 0 {
		delete(s.running, folder)
	}
	shards := 0
	for folder := range s.running {
		if strings.Count(folder, "/") == 2 {
			shards++
		}
	}
	s.most = max(s.most, shards)
}

// open opens the first snapshot of a slow repository.
func (s *slow) open(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	r, err := repo.Open(t.Context(), filepath.Join(fixtures, "7.10.2-multi-index"), repo.Options{})
	must(t, err)
	s.Repository, s.running = r, map[string]int{}
	catalog, err := snapshot.OpenCatalog(t.Context(), s)
	must(t, err)
	first, err := catalog.Snapshot(t.Context(), catalog.Snapshots[0].Name)
	must(t, err)
	return first
}

// TestSnapshots_ComparesShardsConcurrently compares two equal snapshots with many shards: the result is the same, in the same order.
func TestSnapshots_ComparesShardsConcurrently(t *testing.T) {
	var want []Index
	for _, concurrency := range []int{0, 1, 4} {
		r := &slow{}
		s := r.open(t)
		opt := numbers(every)
		opt.Concurrency = concurrency
		var got []Index
		r.most = 0
		for x := range Snapshots(t.Context(), r, s, s, opt) {
			got = append(got, x)
		}
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) || len(got) < 3 {
			t.Errorf("%d at a time: %+v, want %+v", concurrency, got, want)
		}
		if r.most > max(concurrency, 1) || concurrency > 1 && r.most < 2 {
			t.Errorf("%d at a time: %d", concurrency, r.most)
		}
	}
}

// TestSnapshots_EndsWithItsCaller: no comparison goes on after the loop has ended, or after its context has.
func TestSnapshots_EndsWithItsCaller(t *testing.T) {
	r := &slow{}
	s := r.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opt := numbers(every)
	opt.Concurrency = 4
	for range Snapshots(ctx, r, s, s, opt) {
		break
	}
	if n := len(r.running); n > 0 {
		t.Errorf("%d requests run", n)
	}
	seen := 0
	for range Snapshots(ctx, r, s, s, opt) {
		seen++
		cancel()
	}
	if n := len(r.running); n > 0 || seen != 1 {
		t.Errorf("%d requests run, %d indices", n, seen)
	}
}
