package wiring

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/failedtest"
	"github.com/rfsd/rfsd/testing/s3server"
)

func refusals(n int64) (all []doc.Failure) {
	for i := range n {
		all = append(all, doc.Failure{Index: "logs", ID: "a", Shard: 2, Ordinal: i, Reason: "mapper_parsing_exception", Status: 400, Detail: "no content of it", Source: []byte(`{}`)})
	}
	return all
}

func control(t *testing.T) *cms.Coordinator {
	t.Helper()
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	return c
}

func stored(t *testing.T, c *cms.Coordinator) (n int) {
	t.Helper()
	for d, err := range session.RefusalsOf(c).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Index != "logs" || d.ID != "a" || d.Shard != 2 || d.Reason != "mapper_parsing_exception" {
			t.Errorf("%+v", d)
		}
		n++
	}
	return n
}

func TestOnlyAFleetWithoutASharedSinkNotesRefusedDocuments(t *testing.T) {
	cluster := target.Config{URL: "http://127.0.0.1:1"}
	for name, c := range map[string]struct {
		o     Options
		notes int
	}{
		"fleet":            {Options{fleet: true, Target: cluster}, 3},
		"shared directory": {Options{fleet: true, failedShared: true, Target: cluster}, 0},
		"one process":      {Options{Target: cluster}, 0},
		"file":             {Options{fleet: true, Target: cluster, coordinatorFile: "c.db"}, 0},
	} {
		kept := control(t)
		c.o.FailedDir = t.TempDir()
		for _, writer := range []string{"killed", "next"} { // before its progress was recorded
			r, done, err := openRecorder(t.Context(), c.o, kept, writer, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(r.Record(t.Context(), refusals(3)), r.Sync(t.Context()), done()); err != nil {
				t.Fatal(err)
			}
			if n := stored(t, kept); n != c.notes {
				t.Errorf("%s: %d documents in the control index, want %d", name, n, c.notes)
			}
		}
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		want := []session.FailedAt{{Host: host, Place: c.o.FailedDir, Sums: []session.FailedSum{{Index: "logs", Class: "mapping", Reason: "mapper_parsing_exception", Count: 6,
			Remedy: classes.Of("mapper_parsing_exception", "").For("logs", "")}}}}
		if at, err := session.PlacesOf(kept).All(t.Context()); err != nil || !reflect.DeepEqual(at, want) {
			t.Errorf("%s: the store names %+v, %v; want %+v", name, at, err, want)
		}
		n := 0
		for _, err := range failedtest.Read(c.o.FailedDir) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != 3 {
			t.Errorf("%s: %d documents in the directory", name, n)
		}
	}
}

func TestABucketKeepsWhatADirectoryKeeps(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	server, faults := s3server.Start(t, root).Faulty(t, 30, "sink")
	server.Setenv(t)
	o := Options{fleet: true, Session: "move", FailedDir: "s3://bucket/failed", stores: repo.Options{S3: repo.S3Options{Endpoint: server.Endpoint, Region: server.Region, PathStyle: true}}}
	want := refusals(9)
	for _, writer := range []string{"killed", "next"} {
		r, done, err := openSink(t.Context(), o, nil, writer)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if err := errors.Join(r.Record(t.Context(), want[i:i+1]), r.Sync(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if err := done(); err != nil {
			t.Fatal(err)
		}
	}
	var got []doc.Failure
	for f, err := range failedtest.Read(filepath.Join(root, "bucket", "failed", "move", "logs", "2")) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
	}
	if !reflect.DeepEqual(got, want) || faults().Sum() == 0 {
		t.Errorf("%d failures of %d, %+v", len(got), len(want), faults())
	}
	server.Setenv(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	r, _, err := openSink(t.Context(), o, nil, "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Record(t.Context(), want[:1]), r.Sync(t.Context())); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "check AWS_SECRET_ACCESS_KEY") {
		t.Errorf("a key that is wrong: %v", err)
	}
}

func TestADryRunWritesNoFailedDocumentsUnlessToldWhere(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		file bool
	}{
		{"discard alone", []string{"--discard"}, false},
		{"discard and a directory", []string{"--discard", "--failed-documents", "kept"}, true},
		{"an export", []string{"--export-dir", "out"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			o, err := parsedMigration(t, append([]string{"--repo-uri", "/repo", "--snapshot-name", "snap1"}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			r, shut, err := openRecorder(t.Context(), o, control(t), "w", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(r.Record(t.Context(), refusals(3)), r.Sync(t.Context()), shut()); err != nil {
				t.Fatal(err)
			}
			var files []string
			err = filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					files = append(files, path)
				}
				return err
			})
			if err != nil || (len(files) > 0) != c.file {
				t.Errorf("files %q, %v", files, err)
			}
			if err := config.OutsideData(o.FailedDir, filepath.Join(t.TempDir(), "data")); err != nil {
				t.Error(err)
			}
		})
	}
}

// parsedMigration parses a command line without running it.
func parsedMigration(t *testing.T, args ...string) (o Options, err error) {
	t.Helper()
	c := config.Command(cli.Command{Name: "migrate"}, func(_ context.Context, _ *config.Call, m config.Migrate) error {
		o, err = ForMigration("test", m)
		return err
	})
	app := &cli.App{Name: "rfsd", Commands: []*cli.Command{c}, Writer: io.Discard, ErrWriter: io.Discard}
	return o, app.Run(append([]string{"rfsd", "migrate"}, args...))
}
