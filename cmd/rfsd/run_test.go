package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// A daemon knows its workers' ends by numbers of its own, since it does not import commands.
func TestWorkersEndAsTheDaemonExpects(t *testing.T) {
	for code, want := range map[exit.Code]int{
		exit.OK: daemon.ExitDone, exit.Failed: daemon.ExitFailed, exit.LeaseEnded: daemon.ExitTimeout,
		exit.NoneLeft: daemon.ExitNoneLeft, exit.NotYet: daemon.ExitNoneFree, exit.Snapshot: daemon.ExitUnreadable,
	} {
		if int(code) != want {
			t.Errorf("%d (%s), but the daemon takes it as %d", code, code, want)
		}
	}
}

// TestANodeThatRunsToTheEndEndsAsMigrateWould runs whole nodes. The sink proves that a failure in the first moments reaches it,
// although the node ends at once.
func TestANodeThatRunsToTheEndEndsAsMigrateWould(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage bool
		code   exit.Code
	}{
		{"every document arrives", false, exit.OK},
		{"a shard lacks a file", true, exit.Parts},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			repository, told := filepath.Join(dir, "repo"), filepath.Join(dir, "events")
			if err := os.CopyFS(repository, os.DirFS(filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"))); err != nil {
				t.Fatal(err)
			}
			if c.damage {
				removeLargest(t, repository)
			}
			t.Setenv("XDG_STATE_HOME", dir)
			args := []string{"rfsd", "run", "--repo-uri", repository, "--snapshot-name", "snap1", "--export-dir", filepath.Join(dir, "out"), "--exit-when-done",
				"--workers", "2", "--failed-documents", filepath.Join(dir, "failed"), "--command", "/bin/sh", "--command", "-c", "--command", "cat >> '" + told + "'"}
			if code := run(t.Context(), args, os.Stdout, os.Stderr); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			events, err := os.ReadFile(told)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got := strings.Count(string(events), `"code":"failed"`); c.damage != (got == 1) {
				t.Errorf("%d events of failures reached the sink:\n%s", got, events)
			}
		})
	}
}

// removeLargest removes the largest blob of the repository, which holds documents.
func removeLargest(t *testing.T, dir string) {
	t.Helper()
	var largest string
	var most int64
	err := filepath.WalkDir(filepath.Join(dir, "indices"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), "__") {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > most {
			largest, most = path, info.Size()
		}
		return err
	})
	if err != nil || largest == "" {
		t.Fatal(largest, err)
	}
	if err := os.Remove(largest); err != nil {
		t.Fatal(err)
	}
}

func TestANodeHasOneTask(t *testing.T) {
	at := config.Values{"target-host": {"http://127.0.0.1:9200"}}
	stream := at.Over(config.Values{"topic": {"orders"}, "brokers": {"127.0.0.1:9092"}})
	files := at.Over(config.Values{"from": {"out"}})
	for _, c := range []struct {
		values config.Values
		option string
		says   string // "": it is permitted
	}{
		{stream, "partition-lease=PT10S", ""},
		{stream, "max-item-attempts=3", ""}, // may be set for all sessions of a machine
		{stream, "coordinator-file=state.db", ""},
		{stream, "create-indices=true", ""},
		{stream, "snapshot-name=snap1", "--snapshot-name has no meaning for a stream"},
		{stream, "from=out", "--from has no meaning for a stream"},
		{stream, "window-size=100000", "--window-size has no meaning for a stream"},
		{stream, "until-end=true", "rfsd consume"},
		{stream, "follow=true", "--follow has no meaning for a stream"},
		{files, "every=5m", "--every has no meaning for an import"},
		{stream, "exit-when-done=true", "which has no end"},
		{stream, "scale-driver=exec", "--scale-driver"},
		{files, "brokers=127.0.0.1:9092", "--brokers has no meaning for an import"},
		{files, "repo-uri=repo", "--repo-uri has no meaning for an import"},
		{at, "brokers=127.0.0.1:9092", "--brokers has no meaning for a migration"},
	} {
		name, value, _ := strings.Cut(c.option, "=")
		r, err := parseRun(c.values.Over(config.Values{name: {value}}))
		switch {
		case c.says == "" && (err != nil || r.workerCommand() != "consume" || r.own.Node.Workers != 1):
			t.Errorf("%s: %v, %d workers of %q", c.option, err, r.own.Node.Workers, r.task.command)
		case c.says != "" && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", c.option, err, c.says)
		}
	}
	if r, err := parseRun(stream.Over(config.Values{"workers": {"3"}})); err != nil || r.own.Node.Workers != 3 || r.settings["topic"] == nil || r.shared["topic"] == nil || r.shared["broker-tls"] != nil {
		t.Errorf("%v, %+v", err, r.shared)
	}
}

// TestRun_FollowRefusals: a node follows with the options of rfsd follow, and with none that only rfsd follow can have.
func TestRun_FollowRefusals(t *testing.T) {
	follows := []string{"--follow", "true", "--repo-uri", "/r", "--source-host", "http://localhost:9200", "--target-host", "http://localhost:9201"}
	for _, c := range []struct {
		name, says string
		args       []string
	}{
		{"following", "", follows},
		{"with all options", "", append(follows, "--every", "5m", "--delete-indices", "true", "--block-source-writes", "true", "--stop-following", "a", "--exit-when-done", "true")},
		{"a snapshot", "no --snapshot-name", append(follows, "--snapshot-name", "s")},
		{"no source", "give --source-host", []string{"--follow", "true", "--repo-uri", "/r", "--snapshot-name", "s", "--target-host", "http://localhost:9201"}},
		{"a file", "belongs to one process", append(follows, "--coordinator-file", "/c")},
		{"documents are kept", "rfsd run --follow exclude each other: a later snapshot decides about its documents; only overwrite is possible", append(follows, "--existing-documents", "keep")},
		{"data streams", "cannot be changed or deleted", append(follows, "--data-streams", "create")},
		{"phases", "a round has all phases", append(follows, "--phases", "documents")},
		{"a comparison at the end", "rfsd verify --changed", append(follows, "--exit-when-done", "true", "--verify", "true")},
		{"an option of rounds without --follow", "--every has no meaning", append(follows[2:], "--every", "5m")},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := config.Values{"node-name": {"n"}}
			for i := 0; i < len(c.args); i += 2 {
				values[c.args[i][2:]] = []string{c.args[i+1]}
			}
			r, err := parseRun(values)
			switch {
			case c.says == "" && (err != nil || r.follows == nil || r.shared["follow"] == nil || r.settings["every"] != nil):
				t.Errorf("%v, follows %+v, told to the fleet %q, told to workers %q", err, r.follows, r.shared, r.settings)
			case c.says != "" && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, want an error with %q", err, c.says)
			}
		})
	}
}
