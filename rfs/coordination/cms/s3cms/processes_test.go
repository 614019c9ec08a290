package s3cms_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/cmstest"
	"github.com/rfsd/rfsd/testing/s3server"
)

// orderVariable is the variable with the order for a child process of this test binary.
const orderVariable = "RFSD_TEST_S3_WORKER"

// order is the order for one process.
type order struct {
	Endpoint, Region, Session, Name string
	Lease                           int // so many items, without working on them; 0: work until nothing is left
}

// result is the result of one process.
type result struct {
	Leased []string
	Waits  []time.Duration
}

func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		if err := process(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// process is the main function of a process. A leasing process reports that it is ready and starts when its input ends.
func process(text string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	b, err := repo.OpenObjects(ctx, "s3://bucket/state", repo.Options{S3: repo.S3Options{Region: o.Region, Endpoint: o.Endpoint, PathStyle: true}})
	if err != nil {
		return err
	}
	s, err := s3cms.Open(ctx, s3cms.Config{Bucket: b, Session: o.Session})
	if err != nil {
		return err
	}
	c := cms.New(cms.Config{Store: s, Creator: o.Name})
	if o.Lease == 0 {
		return work(ctx, c, o.Name)
	}
	fmt.Fprintln(out, "ready")
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	var r result
	for len(r.Leased) < o.Lease {
		asked := time.Now()
		l, err := c.AcquireNext(ctx, o.Name, nil)
		if err != nil {
			return err
		}
		r.Leased, r.Waits = append(r.Leased, l.Item.ID), append(r.Waits, time.Since(asked))
	}
	return json.NewEncoder(out).Encode(r)
}

// The work of a session: shards with a number of ordinals. A lease does half of a shard, with one watermark in between.
const (
	workShards   = 2
	workOrdinals = 40
)

// work seeds the session and does all of it: each shard is handed off once.
func work(ctx context.Context, c *cms.Coordinator, name string) error {
	err := c.SeedOnce(ctx, name, func(ctx context.Context) error {
		_, err := c.SeedItems(ctx, func(yield func(cms.ItemID) bool) {
			for i := range workShards {
				if !yield(cms.ItemID{Index: "a", Shard: i}) {
					return
				}
			}
		})
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	for {
		l, err := c.AcquireNext(ctx, name, nil)
		if errors.Is(err, cms.ErrAllDone) {
			_, _, err = session.AuditsOf(c).Finish(ctx)
			return err
		}
		if err != nil {
			return err
		}
		// done is the work from the begin of the lease to an ordinal.
		done := func(to int64) cms.Work { return cms.Work{Counts: cms.Counts{Ordinals: to - l.Start()}} }
		switch half := int64(workOrdinals / 2); {
		case l.Start() < half:
			if err = l.Progress(ctx, half/2, done(half/2)); err == nil {
				err = l.Handoff(ctx, half, done(half))
			}
		default:
			err = l.Complete(ctx, done(workOrdinals))
		}
		if err != nil {
			return err
		}
	}
}

// start starts this test binary as a process; it does not outlive the test.
func start(t *testing.T, server s3server.Server, o order) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	o.Endpoint, o.Region = server.Endpoint, server.Region
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), orderVariable+"="+string(raw), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err = cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test failed; its context kills the process
			_ = cmd.Wait()
		}
	})
	return cmd, in, bufio.NewReader(pipe)
}

// TestFortyProcessesLeaseEachItemOnce: 40 processes lease 200 items in the state of one bucket.
func TestFortyProcessesLeaseEachItemOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	const processes, each = 40, 5
	var requests, lost atomic.Int64
	server := serve(t).Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		requests.Add(1)
		next.ServeHTTP(&watched{w, &lost}, r)
	})
	server.Setenv(t)
	s := open(t, connect(t, server), "crowd")
	cmstest.Seed(t, cmstest.Coordinator(t, s, 10*time.Minute), "a", processes*each)
	type running struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	var all []running
	for i := range processes {
		cmd, in, out := start(t, server, order{Session: "crowd", Name: fmt.Sprintf("w%d", i), Lease: each})
		all = append(all, running{cmd, in, out})
	}
	for _, p := range all {
		if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%q %v", line, err)
		}
	}
	requests.Store(0)
	lost.Store(0)
	begun := time.Now()
	for _, p := range all {
		if err := p.in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var waits []time.Duration
	by := map[string]bool{}
	for _, p := range all {
		var r result
		if err := errors.Join(json.NewDecoder(p.out).Decode(&r), p.cmd.Wait()); err != nil {
			t.Fatal(err)
		}
		waits = append(waits, r.Waits...)
		for _, id := range r.Leased {
			if by[id] {
				t.Errorf("%s was leased twice", id)
			}
			by[id] = true
		}
	}
	took := time.Since(begun)
	if len(by) != processes*each {
		t.Errorf("%d items leased of %d", len(by), processes*each)
	}
	slices.Sort(waits)
	t.Logf("%d leases by %d processes in %v, p99 %v, %d lost races, %d requests", len(waits), processes, took.Round(time.Millisecond),
		waits[len(waits)*99/100].Round(time.Millisecond), lost.Load(), requests.Load())
}

// watched counts answers 412.
type watched struct {
	http.ResponseWriter
	lost *atomic.Int64
}

func (w *watched) WriteHeader(status int) {
	if status == http.StatusPreconditionFailed {
		w.lost.Add(1)
	}
	w.ResponseWriter.WriteHeader(status)
}

// TestAProcessMayBeKilledAtEveryRequest kills a process by SIGKILL before and after each of its requests, from the first one of a session
// to the last, and lets another process do the rest.
func TestAProcessMayBeKilledAtEveryRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	step := 9
	if os.Getenv("RFSD_TEST_FLEET") != "" {
		step = 1
	}
	var count, at atomic.Int64
	var after atomic.Bool
	var kill atomic.Value // func()
	server := serve(t).Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		n := count.Add(1)
		if n == at.Load() && after.Load() {
			next.ServeHTTP(w, r)
		}
		if f, ok := kill.Load().(func()); ok && n == at.Load() {
			f()
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	server.Setenv(t)
	kills := 0
	for n := 1; ; n += step {
		survived := 0
		for _, later := range []bool{false, true} {
			name := fmt.Sprintf("k%d-%v", n, later)
			kill.Store(func() {})
			count.Store(0)
			at.Store(int64(n))
			after.Store(later)
			victim, _, _ := start(t, server, order{Session: name, Name: "victim"})
			process := victim.Process
			kill.Store(func() { process.Kill() }) //nolint:errcheck // it may have ended
			if err := victim.Wait(); err == nil {
				survived++
			} else {
				kills++
			}
			at.Store(0)
			finishAfter(t, open(t, connect(t, server), name))
		}
		if survived == 2 {
			break
		}
	}
	t.Logf("%d kills", kills)
	if kills < 4 {
		t.Error("nothing was tested")
	}
}

// finishAfter does the rest of a session whose process is dead, and checks its records.
func finishAfter(t *testing.T, s cms.Store) {
	t.Helper()
	c := cmstest.Coordinator(t, s, 10*time.Minute)
	if err := session.HeldOf(c).ReleaseDead(t.Context(), "victim", cms.CauseKilled); err != nil {
		t.Fatal(err)
	}
	if err := work(t.Context(), c, "heir"); err != nil {
		t.Fatal(err)
	}
	sum, err := cmstest.Sum(t.Context(), c)
	if err != nil || sum.Total.Counts.Ordinals != workShards*workOrdinals {
		t.Errorf("%d ordinals of %d: %v", sum.Total.Counts.Ordinals, workShards*workOrdinals, err)
	}
	rep, done, err := session.AuditsOf(c).Finish(t.Context())
	if err != nil || !done || rep.Chains != workShards || len(rep.Stray) != 0 || len(rep.Repaired) != 0 {
		t.Errorf("%+v done=%v %v", rep, done, err)
	}
}
