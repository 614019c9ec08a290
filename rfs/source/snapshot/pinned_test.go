package snapshot

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// pinnedRepository returns the real repository whose snapshots pin a remote store in the same place, segments and translog.
func pinnedRepository(t testing.TB) memory { return fixture(t, "os2.19.4-pinned") }

// fixture returns a repository of testing/fixtures.
func fixture(t testing.TB, name string) memory {
	t.Helper()
	dir, m := "../../../testing/fixtures/"+name, memory{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		m[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPinned_EachSnapshotIsReadAtItsMoment(t *testing.T) {
	m, docs := pinnedRepository(t), map[string]int64{}
	eachShard(t, m, func(loc Locator, n int) {
		if loc.Pinned == nil {
			t.Fatalf("%+v pins nothing", loc)
		}
		s, err := OpenShard(t.Context(), m, loc, n)
		if err != nil {
			t.Fatal(err)
		}
		docs[loc.SnapshotName] += liveDocs(t, s)
		for _, f := range s.Files {
			if _, err := crcOf(t.Context(), s, f.Name); err != nil {
				t.Error(err)
			}
		}
	})
	if docs["snap-1"] != 57 || docs["snap-2"] != 114 || len(docs) != 2 {
		t.Errorf("%v, want 57 and 114", docs)
	}
}

// TestPinned_TheMomentOfALockChoosesItsCommit reads the shallow snapshots of real nodes by the moments of their commits, and gets the
// documents that their locks name.
func TestPinned_TheMomentOfALockChoosesItsCommit(t *testing.T) {
	for name, m := range shallowRepositories(t) {
		compared := 0
		eachShard(t, m, func(loc Locator, n int) {
			want, err := OpenShard(t.Context(), m, loc, n)
			if err != nil {
				t.Fatal(err)
			}
			for blob := range m {
				at, locked := strings.CutSuffix(blob, "..."+loc.SnapshotUUID+".v2_lock")
				folders := strings.Split(at, "/")
				if !locked || folders[len(folders)-4] != fmt.Sprint(n) {
					continue
				}
				commit := folders[len(folders)-1]
				millis, err := inverted("", commit, strings.Count(commit, "__")-1)
				if err != nil {
					t.Fatal(err)
				}
				p := Pinned{Millis: millis, IndexUUID: folders[len(folders)-5], Segments: "segments", Translog: "translog"}
				if strings.HasSuffix(name, "-hashed") {
					p.PathType, p.Algorithm = pathHashedPrefix, hashComposite
				}
				s := &Shard{Index: loc.IndexName, Number: n, repo: m}
				if err := s.openPinned(t.Context(), p); !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), "--remote-store-uri translog=URI") {
					t.Errorf("%s shard %d: %v, want the lack of the translog", name, n, err)
				}
				if is, of := liveDocs(t, s), liveDocs(t, want); is != of || !strings.HasSuffix(s.Manifest, "/"+commit) {
					t.Errorf("%s shard %d: %d documents of %s, want %d of %s", name, n, is, s.Manifest, of, commit)
				}
				compared++
			}
		})
		if compared < 4 {
			t.Errorf("%s: %d commits", name, compared)
		}
	}
}

func TestPinned_WithoutTheRemoteStoreIsRefusedWithWhatToDo(t *testing.T) {
	m := pinnedRepository(t)
	for _, c := range []struct{ lacks, want string }{
		{"/segments/", "--remote-store-uri segment=URI"},
		{"/translog/", "--remote-store-uri translog=URI"},
	} {
		lacking := memory{}
		for name, b := range m {
			if !strings.Contains(name, c.lacks) {
				lacking[name] = b
			}
		}
		eachShard(t, m, func(loc Locator, n int) {
			_, err := OpenShard(t.Context(), lacking, loc, n)
			if !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "full snapshot") {
				t.Errorf("without %s: %v", c.lacks, err)
			}
		})
	}
}

func TestNewestAt(t *testing.T) {
	name := func(term, generation, at int64) string {
		return fmt.Sprintf("metadata__%019d__%019d__%019d__%019d__-7__%019d__1", math.MaxInt64-term, math.MaxInt64-generation, math.MaxInt64-1, math.MaxInt64-1, math.MaxInt64-at)
	}
	first, second, third, stale := name(1, 2, 100), name(1, 3, 200), name(2, 4, 300), name(1, 9, 350)
	all := []string{third, stale, second, first}
	for _, c := range []struct {
		at   int64
		want string
	}{{99, ""}, {100, first}, {199, first}, {200, second}, {299, second}, {300, third}, {math.MaxInt64 / 2, third}} {
		if got, err := newestAt("f/", all, segments, c.at); got != c.want || err != nil {
			t.Errorf("at %d: %q, %v, want %q", c.at, got, err, c.want)
		}
	}
	for _, bad := range []string{"metadata", "metadata__1__2", "metadata__1__2__3__4__5__x__1", "metadata__1__2__3__4__5__-1__1"} {
		if _, err := newestAt("f/", []string{bad}, segments, 1); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
