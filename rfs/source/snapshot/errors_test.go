package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// shaky is a repository whose n-th request fails, or the first bytes of whose answer never come.
type shaky struct {
	memory
	fails int
	where string // the request that fails, too
	err   error

	mu    sync.Mutex
	calls int
	open  int // readers
	what  string
}

func (s *shaky) call(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls == s.fails || s.where != "" && what == s.where {
		s.what = what
		return s.err
	}
	return nil
}

func (s *shaky) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := s.call("open " + name); err != nil {
		return nil, err
	}
	rc, err := s.memory.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return &shakyReader{ReadCloser: rc, s: s, name: name}, nil
}

func (s *shaky) Stat(ctx context.Context, name string) (int64, error) {
	if err := s.call("stat " + name); err != nil {
		return 0, err
	}
	return s.memory.Stat(ctx, name)
}

func (s *shaky) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		if err := s.call("list " + prefix); err != nil {
			yield(repo.Blob{}, err)
			return
		}
		s.memory.List(ctx, prefix)(yield)
	}
}

type shakyReader struct {
	io.ReadCloser
	s     *shaky
	name  string
	begun bool
}

func (r *shakyReader) Read(b []byte) (int, error) {
	if !r.begun {
		r.begun = true
		if err := r.s.call("read " + r.name); err != nil {
			return 0, err
		}
	}
	return r.ReadCloser.Read(b)
}

func (r *shakyReader) Close() error {
	r.s.mu.Lock()
	r.s.open--
	r.s.mu.Unlock()
	return r.ReadCloser.Close()
}

// readAll reads a snapshot as a migration and a check of the repository do.
func readAll(t *testing.T, r Repository) error {
	t.Helper()
	c, err := OpenCatalog(t.Context(), r)
	if err != nil {
		return err
	}
	name := c.Snapshots[len(c.Snapshots)-1].Name
	if err := readThrough(t, r, name); err != nil {
		return err
	}
	s, err := c.Snapshot(t.Context(), name)
	if err != nil {
		return err
	}
	for _, ref := range s.Indices {
		x, err := s.Index(t.Context(), ref.Name)
		if err != nil {
			return err
		}
		if _, err := x.Locator.Index(t.Context(), r); err != nil {
			return err
		}
		for n := range x.NumShards {
			shard, err := OpenShard(t.Context(), r, x.Locator, n)
			if err != nil {
				return err
			}
			for _, blob := range shard.Blobs() {
				if err := shard.CheckLength(t.Context(), blob); err != nil {
					return err
				}
			}
			if list := x.Locator.ShardList(n); list != "" {
				if err := CheckShardList(t.Context(), r, list); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// TestEveryRequestToARepositoryMayFail lets each request fail once: the error is reported as it is, and no reader stays open.
func TestEveryRequestToARepositoryMayFail(t *testing.T) {
	all := realRepositories(t)
	without := func(m memory, part string) memory {
		left := memory{}
		for blob, b := range m {
			if !strings.Contains(blob, part) || !strings.HasPrefix(blob, "indices/") && part == "/snap-" {
				left[blob] = b
			}
		}
		return left
	}
	for name, m := range shallowRepositories(t) {
		all[name], all[name+" without locks"] = m, without(m, "/lock_files/")
	}
	all["5.6.16-multi-type with lists only"] = without(all["5.6.16-multi-type"], "/snap-")
	for name, m := range all {
		t.Run(name, func(t *testing.T) {
			whole := &shaky{memory: m}
			if err := readAll(t, whole); err != nil {
				t.Fatal(err)
			}
			if whole.open != 0 {
				t.Errorf("%d readers stay open", whole.open)
			}
			outage := fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
			step := 1
			if testing.Short() {
				step = max(1, whole.calls/20)
			}
			for n := 1; n <= whole.calls; n += step {
				s := &shaky{memory: m, fails: n, err: outage}
				err := readAll(t, s)
				if err == nil && (strings.HasSuffix(s.what, " index.latest") || s.what == "list index-") {
					// Each stands in for the other, with a warning.
					if c, err := OpenCatalog(t.Context(), &shaky{memory: m, where: s.what, err: outage}); err != nil || len(c.Warnings) != 1 {
						t.Errorf("request %d, %s: %v, no warning", n, s.what, err)
					}
					continue
				}
				if !errors.Is(err, outage) || errors.Is(err, fault.ErrCorrupt) || errors.Is(err, ErrShardMissing) {
					t.Errorf("request %d, %s: %v", n, s.what, err)
				}
				if s.open != 0 {
					t.Errorf("request %d, %s: %d readers stay open", n, s.what, s.open)
				}
			}
			t.Logf("%d requests", whole.calls)
		})
	}
}

func TestPayloadsOfTwoBytesAndOfOtherCodecVersions(t *testing.T) {
	for _, in := range []string{"", "Z", "ZV", "ZV\x02", "\x28\xB5\x2F", "DFL"} {
		if _, err := decodeBlob("blob", "", []byte(in), 100); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "blob") {
			t.Errorf("%q: %v", in, err)
		}
	}
	framed := frame(codecIndex, []byte(`{}`))
	if _, err := decodeBlob("blob", codecIndex, framed, 100); err != nil {
		t.Fatal(err)
	}
	body := framed[:len(framed)-8]
	body[5+len(codecIndex)+3] = 2
	if _, err := decodeBlob("blob", codecIndex, appendCRC(body), 100); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("another codec version: %v", err)
	}
}

func TestAShallowSnapshotThatNamesNoCommitIsCorrupt(t *testing.T) {
	m := shallowRepositories(t)["os2.19.4-shallow"]
	var loc Locator
	number := -1
	eachShard(t, m, func(l Locator, n int) { loc, number = l, n })
	shard, err := OpenShard(t.Context(), m, loc, number)
	if err != nil {
		t.Fatal(err)
	}
	const whole = `{"name":"NAME","index_uuid":"u","primary_term":1,"commit_generation":2,"file_names":["segments_2"]}`
	for _, c := range []struct{ name, was, is string }{
		{"another snapshot", `NAME`, `other`},
		{"no UUID", `"u"`, `""`}, {"a UUID that is a path", `"u"`, `"../u"`}, {"a UUID with a backslash", `"u"`, `"u\\"`},
		{"a negative term", `"primary_term":1`, `"primary_term":-1`}, {"a negative generation", `"commit_generation":2`, `"commit_generation":-2`},
		{"no files", `["segments_2"]`, `[]`}, {"files are text", `["segments_2"]`, `"x"`},
	} {
		doc := strings.ReplaceAll(strings.Replace(whole, c.was, c.is, 1), "NAME", loc.SnapshotName)
		_, err := OpenShard(t.Context(), m.with(shard.Manifest, frame(codecSnapshot, []byte(doc))), loc, number)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), shard.Manifest) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestWhatTheEntriesOfACatalogTakeIsCounted(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name, in string
		least    int
	}{
		{"a snapshot", `{"snapshots":[{"name":"` + long + `","uuid":"` + long + `","version":"` + long + `"}]}`, 2 * 3000},
		{"a snapshot's metadata", `{"snapshots":[{"index_metadata_lookup":{"` + long + `":"` + long + `1"}}]}`, 2000},
		{"an index", `{"indices":{"` + long + `":{"id":"` + long + `1"}}}`, 2000},
		{"the generations of shards", `{"indices":{"a":{"shard_generations":["` + long + `","` + long + `"]}}}`, 2000},
		{"an identifier", `{"index_metadata_identifiers":{"` + long + `":"` + long + `1"}}`, 2000},
	} {
		r := &catalogReader{ctx: t.Context(), c: &Catalog{places: map[string]int32{}, newest: map[string]int32{}, identifiers: map[string]string{}, indices: map[string]catalogIndex{}}}
		if _, err := r.pass([]byte(c.in), false); err != nil || r.used < c.least {
			t.Errorf("%s: %d bytes are counted, want at least %d, %v", c.name, r.used, c.least, err)
		}
		r.used = maxCatalogMemory
		if _, err := r.pass([]byte(c.in), false); !errors.Is(err, errCatalogMemory) {
			t.Errorf("%s beyond the bound: %v", c.name, err)
		}
	}
}

func TestMembersOfACatalogThatAreNotKnownAreSkipped(t *testing.T) {
	c, err := OpenCatalog(t.Context(), memory{"index-0": []byte(`{"new":{"x":[1]},"snapshots":[{"name":"s","new":[{}]}],"indices":{"a":{"new":{"x":[1]},"id":"b"}}}`)})
	if err != nil || c.indices["a"].id != "b" || len(c.Snapshots) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestGenerationsThatNameNoBlob(t *testing.T) {
	for in, want := range map[string]string{`null`: "", `"_new"`: "", `"_deleted"`: "", `12`: "12", `"aBc-_"`: "aBc-_"} {
		if got := generation([]byte(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestTheVersionThatMadeAnIndexIsKnown(t *testing.T) {
	if x := firstIndex(t, realRepositories(t)["7.17.29-templates"]); x.Locator.Created/100 != 71729 {
		t.Errorf("%+v", x.Locator)
	}
}

func TestMetadataOfARemoteStoreWithoutItsFooterIsDamage(t *testing.T) {
	m := shallowRepositories(t)["os2.19.4-shallow"]
	whole := m[metadataBlobs(m)[0]]
	for name, b := range map[string][]byte{
		"another magic":       appendCRC(append(append([]byte{}, whole[:len(whole)-footerSize]...), 1, 2, 3, 4, 0, 0, 0, 0)),
		"fewer than a footer": whole[len(whole)-footerSize+1:],
		"nothing":             nil,
	} {
		if _, _, err := parseSegmentMetadata(b); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "no footer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMetadataOfARemoteStoreOfALaterVersionIsNamed(t *testing.T) {
	m := shallowRepositories(t)["os2.19.4-shallow"]
	name := metadataBlobs(m)[0]
	later := bytes.Clone(m[name])
	later[5+len("segment_md")+3] = 3
	_, err := readSegmentMetadata(t.Context(), m.with(name, resealed(later)), name, &shallow{})
	if !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "version 3") {
		t.Errorf("%v", err)
	}
}

func TestBlame(t *testing.T) {
	s := &Shard{Path: "indices/a/0", Manifest: "indices/a/0/snap-u.dat"}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"damage without a blob is the list's", &fault.Damage{File: "_0.fdt", Offset: 7, Err: fault.ErrCorrupt}, s.Manifest},
		{"damage of a blob is the blob's", &fault.Damage{Blob: "indices/a/0/__1", File: "_0.fdt", Offset: 7, Err: fault.ErrCorrupt}, "indices/a/0/__1"},
	} {
		var d *fault.Damage
		if err := s.Blame(c.err); !errors.As(err, &d) || d.Blob != c.want || !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := s.Blame(fault.ErrUnsupported); !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), s.Path) {
		t.Errorf("what is not supported names the shard: %v", err)
	}
	if err := s.Blame(fault.ErrUnavailable); err != fault.ErrUnavailable { //nolint:errorlint // it is the same
		t.Errorf("an outage is nothing's fault: %v", err)
	}
}
