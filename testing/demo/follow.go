package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/rest"
)

// rounds is the number of rounds before the cut-over.
const rounds = 3

// follow boots a source that a client writes to, follows it for a few rounds, and cuts over to a target.
func (d run) follow(ctx context.Context, version string) (err error) {
	if err := announce(d.out, "elasticsearch-7.10.2", "opensearch-"+version); err != nil {
		return err
	}
	source, err := cluster.Boot(ctx, "elasticsearch", "7.10.2")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Stop()) }()
	target, err := cluster.Boot(ctx, "opensearch", version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Stop()) }()
	from, err := source.Client()
	if err != nil {
		return err
	}
	to, err := target.Client()
	if err != nil {
		return err
	}

	client := &shop{source: from}
	writing, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.write(writing)
	}()
	defer func() { stop(); <-ended }()
	fmt.Fprintln(d.out, "A client inserts, updates and deletes orders on the source, about 500 times a second.")
	if err := d.rounds(ctx, source, target); err != nil {
		return err
	}
	stop()
	<-ended
	fmt.Fprintf(d.out, "\nThe client's requests: %d were acknowledged, %d were refused by the write block.\n", client.acknowledged.Load(), client.refused.Load())
	for name, c := range map[string]rest.Client{"source": from, "target": to} {
		if err := c.JSON(ctx, http.MethodPost, "/orders/_refresh", nil, nil); err != nil {
			return err
		}
		var answer struct{ Count int }
		if err := c.JSON(ctx, http.MethodGet, "/orders/_count", nil, &answer); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  orders on the %s: %d\n", name, answer.Count)
	}
	return nil
}

// rounds runs rfsd follow, and orders the cut-over after a few rounds.
func (d run) rounds(ctx context.Context, source, target *cluster.Node) error {
	session := []string{"--target-host", target.URL, "--session-name", "shop"}
	args := append([]string{"follow", "--repo-uri", "file://" + filepath.Join(source.Repos, "shop"), "--source-host", source.URL, "--every", "10s", "--block-source-writes"}, session...)
	fmt.Fprintf(d.out, "\n$ rfsd %s\n", strings.Join(args, " "))
	args = append(args, "--index-allowlist", "orders", "--failed-documents", filepath.Join(d.dir, "failed"), "--log-level", "warn")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, d.rfsd, args...)
	cmd.Stderr = os.Stderr
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s follow: %w", d.rfsd, err)
	}
	arrived := make(chan struct{}, 1000)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(lines); scanner.Scan(); {
			if line := scanner.Text(); strings.HasPrefix(line, "round ") {
				fmt.Fprintln(d.out, line)
				arrived <- struct{}{}
			}
		}
	}()
	err = d.cutOver(ctx, session, arrived, read)
	stop() // it would wait for two minutes to restore settings
	<-read
	_ = cmd.Wait() // the error states that it was killed
	return err
}

// cutOver orders the cut-over after a number of rounds. ended is closed when rfsd follow exits.
func (d run) cutOver(ctx context.Context, session []string, arrived, ended <-chan struct{}) error {
	for range rounds {
		select {
		case <-arrived:
		case <-ended:
			return errors.New("rfsd follow has ended")
		case <-time.After(2 * time.Minute):
			return errors.New("no round has arrived within two minutes")
		}
	}
	rfsctl := filepath.Join(filepath.Dir(d.rfsd), "rfsctl")
	for _, more := range [][]string{{"--dry-run"}, {"--block-source-writes"}} {
		args := append(append([]string{"cutover"}, session...), more...)
		fmt.Fprintf(d.out, "\n$ rfsctl %s\n", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, rfsctl, args...)
		cmd.Stdout, cmd.Stderr = d.out, d.out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s cutover: %w", rfsctl, err)
		}
	}
	return nil
}

// shop is a client of the source.
type shop struct {
	source                rest.Client
	acknowledged, refused atomic.Int64
}

// write indexes documents until ctx is done.
func (s *shop) write(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		var b strings.Builder
		for j := range 8 {
			fmt.Fprintf(&b, `{"index":{"_index":"orders","_id":"%d"}}`+"\n"+`{"status":"new","price":%d}`+"\n", 8*i+j, i%100)
		}
		fmt.Fprintf(&b, `{"index":{"_index":"orders","_id":"%d"}}`+"\n"+`{"status":"paid","price":%d}`+"\n", i*3, i%100)
		fmt.Fprintf(&b, `{"delete":{"_index":"orders","_id":"%d"}}`+"\n", i*5)
		answer, err := s.source.Send(ctx, http.MethodPost, "/_bulk", "application/x-ndjson", []byte(b.String()))
		switch {
		case ctx.Err() != nil:
		case err != nil || strings.Contains(string(answer), `"errors":true`):
			s.refused.Add(1)
		default:
			s.acknowledged.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}
