package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/s3server"
)

func TestAMigrationThatIsNotCompleteIsForgottenOnlyByForce(t *testing.T) {
	path := kept(t, time.Hour) // with FAILED items, and without records of phases
	if code, _, errs := rfsctl(t, "cleanup", "--coordinator-file", path); code != 1 || !strings.Contains(errs, "not complete") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := rfsctl(t, "cleanup", "--coordinator-file", path, "--yes"); code != 1 || !strings.Contains(errs, "--trial") {
		t.Errorf("--yes without --trial: exit %d: %s", code, errs)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := rfsctl(t, "cleanup", "--coordinator-file", path, "--force"); code != 0 || !strings.Contains(out, "removed "+path) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}

// TestCleanup_SettingsThatAreNotRestored: the records are all that shows the former values.
func TestCleanup_SettingsThatAreNotRestored(t *testing.T) {
	path := kept(t, time.Hour)
	store, err := boltcms.Open(path, time.Now)
	must(t, err)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	one := "1"
	for n := range mostSettings + 1 {
		_, err := session.TuningsOf(c).Note(t.Context(), session.Tuned{
			Target: fmt.Sprintf("orders-%02d", n), UUID: "u", Was: map[string]*string{"index.number_of_replicas": &one}, Set: map[string]string{"index.number_of_replicas": "0", "index.refresh_interval": "-1"},
		})
		must(t, err)
	}
	for _, x := range []struct {
		name string
		of   *progress.Migration
		want []string // in the error; nil: none
	}{
		{"a migration", &progress.Migration{}, []string{"rfsctl target restore does", "index.number_of_replicas of orders-00 is 0, was 1, index.refresh_interval of orders-00 is -1, was not set", "orders-09", "and 22 more"}},
		{"a followed cluster", &progress.Migration{Rounds: &progress.Following{}}, []string{"rfsd follow --finish does"}},
		{"undone", &progress.Migration{Undone: true}, nil},
		{"unknown", nil, nil},
	} {
		err := settingsLeft(t.Context(), c, x.of)
		if (err == nil) != (x.want == nil) {
			t.Errorf("%s: %v", x.name, err)
		}
		for _, want := range x.want {
			if !strings.Contains(err.Error(), want) || !errors.Is(err, fault.ErrConfig) {
				t.Errorf("%s: not %q: %v", x.name, want, err)
			}
		}
	}
	must(t, store.Close())
	if code, out, errs := rfsctl(t, "cleanup", "--coordinator-file", path, "--force"); code != 0 || !strings.Contains(out, "removed "+path) || !strings.Contains(errs, "rfsctl: warning: settings of the target are not restored yet") {
		t.Errorf("--force: exit %d: %s%s", code, out, errs)
	}
}

// TestCleanupOfABucketRemovesOneSession has two sessions and objects of others in a bucket, and credentials that may only read,
// that may not delete, and that may.
func TestCleanupOfABucketRemovesOneSession(t *testing.T) {
	root := t.TempDir()
	bucket := filepath.Join(root, "bucket")
	must(t, os.Mkdir(bucket, 0o755))
	var denied atomic.Value // methods that the credentials do not permit
	denied.Store("")
	server := s3server.Start(t, root).Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(denied.Load().(string), r.Method) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`))
			return
		}
		next.ServeHTTP(w, r)
	})
	server.Setenv(t)
	options := repo.Options{S3: repo.S3Options{Region: server.Region, Endpoint: server.Endpoint, PathStyle: true}}
	for _, session := range []string{"one", "one-more"} {
		objects, err := repo.OpenObjects(t.Context(), "s3://bucket/state", options)
		must(t, err)
		store, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: objects, Session: session})
		must(t, err)
		worked(t, store)
	}
	must(t, os.WriteFile(filepath.Join(bucket, "state", "one", "notes.txt"), []byte("ours"), 0o644))
	there := func() (all []string) {
		must(t, filepath.WalkDir(bucket, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				all = append(all, strings.TrimPrefix(path, bucket+"/"))
			}
			return err
		}))
		return all
	}
	before := there()
	at := []string{"--coordinator-bucket", "s3://bucket/state", "--coordinator-s3-region", server.Region, "--coordinator-s3-endpoint", server.Endpoint, "--coordinator-s3-path-style",
		"--session-name", "one"}
	run := func(want int, says string, args ...string) {
		t.Helper()
		if code, out, errs := rfsctl(t, slices.Concat(args, at)...); code != want || !strings.Contains(out+errs, says) {
			t.Errorf("%v: exit %d, want %d and %q: %s%s", args, code, want, says, out, errs)
		}
	}
	denied.Store("PUT DELETE POST") // those of a reader
	run(7, "2 given up", "status")
	run(0, "metrics", "items", "list")
	run(7, "segment _3: checksum", "failures")
	run(1, "AccessDenied", "items", "retry", "bG9ncw__1__0")
	denied.Store("DELETE") // those of a worker
	run(1, "not complete", "cleanup")
	run(1, "AccessDenied", "cleanup", "--force")
	if got := there(); !slices.Equal(got, before) {
		t.Errorf("what may not be removed is gone: %v", got)
	}
	denied.Store("")
	run(1, "not complete", "cleanup")
	run(0, "left there, because rfsd did not write them: one/notes.txt", "cleanup", "--force")
	want := slices.DeleteFunc(slices.Clone(before), func(name string) bool {
		return strings.HasPrefix(name, "state/one/") && name != "state/one/notes.txt"
	})
	if got := there(); !slices.Equal(got, want) || len(want) < 5 || len(want) == len(before) {
		t.Errorf("left: %v, want %v", got, want)
	}
	run(1, `holds no session "one", only "one-more"`, "cleanup", "--force")
}

// TestAFollowedSession is neither forgotten nor undone while it goes on.
func TestAFollowedSession(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "bucket"), 0o755))
	server := s3server.Start(t, root)
	server.Setenv(t)
	in := func(name string, f func(*cms.Coordinator)) {
		t.Helper()
		objects, err := repo.OpenObjects(t.Context(), "s3://bucket/state", repo.Options{S3: repo.S3Options{Region: server.Region, Endpoint: server.Endpoint, PathStyle: true}})
		must(t, err)
		store, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: objects, Session: name})
		must(t, err)
		f(cms.New(cms.Config{Store: store, Creator: "test"}))
	}
	var lease *cms.Lease
	work := func(c *cms.Coordinator) {
		seed, err := c.AcquireSetup(t.Context(), "seeder")
		must(t, err)
		_, err = c.SeedItems(t.Context(), slices.Values([]cms.ItemID{{Index: "a"}}))
		must(t, err)
		must(t, seed.Complete(t.Context(), cms.Work{}))
		lease, err = c.AcquireNext(t.Context(), "worker", nil)
		must(t, err)
	}
	at := []string{"--coordinator-bucket", "s3://bucket/state", "--coordinator-s3-region", server.Region, "--coordinator-s3-endpoint", server.Endpoint, "--coordinator-s3-path-style", "--session-name", "s"}
	refused := func(want string, args ...string) {
		t.Helper()
		code, out, errs := rfsctl(t, append(args, at...)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d: %s%s, want %s", args, code, out, errs, want)
		}
	}
	in("s", func(c *cms.Coordinator) {
		work(c)
		must(t, lease.Complete(t.Context(), cms.Work{}))
		_, err := session.PhasesOf(c).Move(t.Context(), session.DocsPhase, "", session.PhaseCompleted, nil)
		must(t, err)
		rounds := session.RoundsOf(c)
		_, err = rounds.Start(t.Context(), session.Round{})
		must(t, err)
		_, err = rounds.Arrive(t.Context(), session.Round{Snapshot: "a"})
		must(t, err)
		_, err = rounds.Start(t.Context(), session.Round{Number: 1, Snapshot: "b"})
		must(t, err)
	})
	refused("rfsd follow --finish", "cleanup")
	in("s-round-1", work)
	refused("the session runs: worker", "undo", "--yes", "--target-host", "http://127.0.0.1:1")
	in("s-round-1", func(*cms.Coordinator) { must(t, lease.Complete(t.Context(), cms.Work{})) })
	in("s", func(c *cms.Coordinator) {
		_, err := session.CutoversOf(c).Order(t.Context(), session.CutoverOptions{MaxOutage: 1000}, "test")
		must(t, err)
	})
	refused("rfsctl cutover --abort", "undo", "--yes", "--target-host", "http://127.0.0.1:1")
	in("s", func(c *cms.Coordinator) {
		_, err := session.CutoversOf(c).Return(t.Context(), "test")
		must(t, err)
		must(t, session.RoundsOf(c).Finish(t.Context()))
	})
	if code, out, errs := rfsctl(t, append([]string{"cleanup"}, at...)...); code != 0 || !strings.Contains(out, "any more: a\n") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
