package repo_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/s3server"
)

// TestAnswersToConditionalWritesHaveTheirCategory: a condition that did not hold changed nothing; of anything else that passes
// the outcome is unknown; the rest has to be changed by the user.
func TestAnswersToConditionalWritesHaveTheirCategory(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error
		says   string
	}{
		{412, "PreconditionFailed", fs.ErrExist, ""},
		{409, "ConditionalRequestConflict", fault.ErrUnavailable, "another write"},
		{404, "NoSuchKey", fs.ErrExist, ""},
		{409, "OperationAborted", fault.ErrUnavailable, "OperationAborted"},
		{503, "SlowDown", fault.ErrUnavailable, "SlowDown"},
		{500, "InternalError", fault.ErrUnavailable, "500"},
		{429, "TooManyRequests", fault.ErrUnavailable, "429"},
		{403, "AccessDenied", fault.ErrConfig, "s3:PutObject"},
		{403, "RequestTimeTooSkewed", fault.ErrUnavailable, "the clock of this machine"},
		{404, "NoSuchBucket", fault.ErrConfig, "the bucket does not exist"},
		{501, "NotImplemented", fault.ErrConfig, "no conditional writes"},
	} {
		o := fakeObjects(t, func(w http.ResponseWriter, _ *http.Request) { xmlError(w, c.status, c.code) })
		for _, version := range []string{"", `"v1"`} {
			_, err := o.Put(t.Context(), "o", []byte("x"), version)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d %s: %v, want %v", c.status, c.code, err, c.want)
			}
		}
	}
}

// TestObjectsOfAStrangeServerAreRefused: answers without what the protocol relies on.
func TestObjectsOfAStrangeServerAreRefused(t *testing.T) {
	o := fakeObjects(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		if strings.Contains(r.URL.RawQuery, "list-type") {
			w.Write([]byte(`<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>`)) //nolint:errcheck // a test
		}
	})
	if _, _, err := o.Get(t.Context(), "o"); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "ETag") {
		t.Errorf("get without an ETag: %v", err)
	}
	if _, err := o.Put(t.Context(), "o", nil, ""); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("put without an ETag: %v", err)
	}
	if _, err := o.Date(t.Context(), "o"); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "Date") {
		t.Errorf("no Date: %v", err)
	}
	if _, _, _, err := o.List(t.Context(), "o", ""); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("empty pages without end: %v", err)
	}
	for _, name := range []string{"../o", "/o", "a//b", ""} {
		if _, _, err := o.Get(t.Context(), name); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
}

func TestObjectsOfARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	o := realObjects(t)
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
		t.Errorf("%q %s %v", b, v, err)
	}
	if at, err := o.Date(ctx, "a/1"); err != nil || time.Since(at).Abs() > 10*time.Second || at.Nanosecond() != 0 {
		t.Errorf("%v %v", at, err)
	}
	for _, name := range []string{"a/2", "a/3", "b/1"} {
		if _, err := o.Put(ctx, name, nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	names, versions, more, err := o.List(ctx, "a/", "a/1")
	if err != nil || more || strings.Join(names, " ") != "a/2 a/3" || len(versions) != 2 {
		t.Errorf("%v %v %v %v", names, versions, more, err)
	}
	if names, versions, _, err = o.List(ctx, "a/1", ""); err != nil || len(names) != 1 || versions[0] != v2 {
		t.Errorf("the version of a listing: %v %v %v, want %s", names, versions, err, v2)
	}
}

// TestConditionsOfTheRealServerAreAtomic: of writers that create an object, or change the same version of it, at the same
// moment one succeeds. The tests of the coordination store rely on it.
func TestConditionsOfTheRealServerAreAtomic(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	o := realObjects(t)
	version := ""
	for round := range 40 {
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
}

func fakeObjects(t *testing.T, answer http.HandlerFunc) *repo.Objects {
	t.Helper()
	server := s3server.Fake(t, answer)
	server.Setenv(t)
	return openObjects(t, server)
}

func realObjects(t *testing.T) *repo.Objects {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := s3server.Start(t, root)
	server.Setenv(t)
	return openObjects(t, server)
}

func openObjects(t *testing.T, server s3server.Server) *repo.Objects {
	t.Helper()
	o, err := repo.OpenObjects(t.Context(), "s3://bucket/p", s3Options(server))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
