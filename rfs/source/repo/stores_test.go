package repo_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/repotest"
	"github.com/rfsd/rfsd/testing/s3server"
)

// realStore is an empty bucket of a real server.
type realStore struct {
	scheme  string
	options repo.Options
	put     func(t testing.TB, name string, body []byte)
}

// realStores start a server of each kind.
var realStores = map[string]func(t *testing.T) realStore{
	"S3": func(t *testing.T) realStore {
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, "bucket"), 0o755); err != nil {
			t.Fatal(err)
		}
		server := s3server.Start(t, root)
		server.Setenv(t)
		return realStore{"s3", s3Options(server), func(t testing.TB, name string, body []byte) {
			t.Helper()
			path := filepath.Join(root, "bucket", filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, body, 0o644)); err != nil {
				t.Fatal(err)
			}
		}}
	},
	"GCS": func(t *testing.T) realStore {
		s := objectserver.StartGCS(t)
		return realStore{"gs", repo.Options{GCS: repo.GCSOptions{Endpoint: s.Endpoint}}, s.Put}
	},
	"Azure": func(t *testing.T) realStore {
		a := objectserver.StartAzurite(t)
		return realStore{"azblob", repo.Options{Azure: repo.AzureOptions{Account: a.Account, Endpoint: a.Endpoint, KeyFile: a.KeyFile}}, a.Put}
	},
}

// eachStore runs a test on a real server of each kind.
func eachStore(t *testing.T, test func(t *testing.T, s realStore)) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	for name, start := range realStores {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

func TestRealStores_KeepTheContract(t *testing.T) {
	for _, prefix := range []string{"", "some/prefix/"} {
		eachStore(t, func(t *testing.T, s realStore) {
			repotest.Run(t, func(t *testing.T, blobs map[string][]byte) repotest.Repository {
				for name, body := range blobs {
					s.put(t, prefix+name, body)
				}
				if prefix != "" {
					s.put(t, "some/prefix2/index-77", []byte("not ours"))
				}
				r, err := repo.Open(t.Context(), s.scheme+"://bucket/"+prefix, s.options)
				if err != nil {
					t.Fatal(err)
				}
				return r
			})
		})
	}
}

// TestRealStores_KeepToTheRate reads a blob that is longer than one range of the read-ahead: every byte counts once, and reading takes as
// long as the rate demands.
func TestRealStores_KeepToTheRate(t *testing.T) {
	const size, rate = 9 << 20, 6 << 20
	eachStore(t, func(t *testing.T, s realStore) {
		s.put(t, "p/__a", make([]byte, size))
		read := func(l repo.Limiter) time.Duration {
			t.Helper()
			o := s.options
			o.Rate = l
			r, err := repo.Open(t.Context(), s.scheme+"://bucket/p", o)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if b, err := repo.ReadAll(t.Context(), partOf{r, size}, "__a", size); err != nil || len(b) != size {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			return time.Since(begin)
		}
		count := &counted{}
		if read(count); count.bytes.Load() != size {
			t.Errorf("%d of %d bytes were counted", count.bytes.Load(), size)
		}
		const least = time.Duration(float64(size) / rate * float64(time.Second) * 0.9)
		if took := read(throttle.New(rate)); took < least {
			t.Errorf("%d bytes at %d per second took %v, want at least %v", size, rate, took, least)
		}
	})
}

func TestRealStores_ObjectsChangeUnderConditions(t *testing.T) {
	eachStore(t, func(t *testing.T, s realStore) {
		o, err := repo.OpenObjects(t.Context(), s.scheme+"://bucket/p", s.options)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		if _, _, err := o.Get(ctx, "a/1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("get: %v", err)
		}
		v1, err := o.Put(ctx, "a/1", []byte("one"), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Put(ctx, "a/1", []byte("two"), ""); !errors.Is(err, fs.ErrExist) {
			t.Errorf("created twice: %v", err)
		}
		if _, err := o.Put(ctx, "a/1", []byte("two"), `"00000000000000000000000000000000"`); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a version that no object has: %v", err)
		}
		v2, err := o.Put(ctx, "a/1", []byte("two"), v1)
		if err != nil || v2 == v1 {
			t.Fatalf("%s after %s, %v", v2, v1, err)
		}
		if _, err := o.Put(ctx, "a/1", []byte("three"), v1); !errors.Is(err, fs.ErrExist) {
			t.Errorf("an old version: %v", err)
		}
		if _, err := o.Put(ctx, "a/none", []byte("x"), v1); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a version of nothing: %v", err)
		}
		if b, v, err := o.Get(ctx, "a/1"); err != nil || string(b) != "two" || v != v2 {
			t.Errorf("%q %s %v, want version %s", b, v, err, v2)
		}
		if at, err := o.Date(ctx, "a/1"); err != nil || time.Since(at).Abs() > 10*time.Second || at.Nanosecond() != 0 {
			t.Errorf("%v %v", at, err)
		}
		for _, name := range []string{"a/2", "a/3 ü+%", "b/1"} {
			if _, err := o.Put(ctx, name, nil, ""); err != nil {
				t.Fatal(err)
			}
		}
		names, versions, more, err := o.List(ctx, "a/", "a/1")
		if err != nil || more || strings.Join(names, "|") != "a/2|a/3 ü+%" || len(versions) != 2 {
			t.Errorf("%v %v %v %v", names, versions, more, err)
		}
		if names, versions, _, err = o.List(ctx, "a/1", ""); err != nil || len(names) != 1 || versions[0] != v2 {
			t.Errorf("the version of a listing: %v %v %v, want %s", names, versions, err, v2)
		}
		for range 2 {
			if err := o.Delete(ctx, "a/3 ü+%"); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := o.Get(ctx, "a/3 ü+%"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("get after a deletion: %v", err)
		}
	})
}

func TestRealStores_ConditionsAreAtomic(t *testing.T) {
	eachStore(t, func(t *testing.T, s realStore) {
		o, err := repo.OpenObjects(t.Context(), s.scheme+"://bucket/p", s.options)
		if err != nil {
			t.Fatal(err)
		}
		version := ""
		for round := range 20 {
			var mu sync.Mutex
			var wg sync.WaitGroup
			var won []string
			for i := range 8 {
				wg.Go(func() {
					is, err := o.Put(t.Context(), "contended", fmt.Appendf(nil, "%d by %d", round, i), version)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						won = append(won, is)
					case !errors.Is(err, fs.ErrExist):
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if len(won) != 1 {
				t.Fatalf("round %d: %d of 8 writers succeeded", round, len(won))
			}
			version = won[0]
		}
	})
}

func TestRealStores_BucketsArriveWhole(t *testing.T) {
	eachStore(t, func(t *testing.T, s realStore) {
		b, err := repo.OpenBucket(t.Context(), s.scheme+"://bucket/failed/", s.options, retry.Policy{Tries: 2, Sleep: noPause})
		if err != nil {
			t.Fatal(err)
		}
		r, err := repo.Open(t.Context(), s.scheme+"://bucket/failed", s.options)
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("0123456789", 500_000)
		for _, name := range []string{"a/1.ndjson", "a%2Fb é/1.ndjson", "a/1.ndjson"} {
			if err := b.PutFrom(t.Context(), name, strings.NewReader(body), int64(len(body))); err != nil {
				t.Fatal(err)
			}
			rc, err := r.Open(t.Context(), name, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(rc); err != nil || string(got) != body {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
			rc.Close()
		}
		if err := b.Put(t.Context(), "../x", nil); err == nil {
			t.Error("a name that leads out of the prefix was written")
		}
		other, err := repo.OpenBucket(t.Context(), s.scheme+"://other-bucket/x", s.options, retry.Policy{Tries: 2, Sleep: noPause})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Put(t.Context(), "a", nil); !errors.Is(err, fault.ErrNoBucket) {
			t.Errorf("no such bucket: %v", err)
		}
	})
}
