package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// pipelineVerb makes this program a child that runs the pipeline over a repository, one round for each line of input.
const pipelineVerb = "pipeline-child"

// pipelineRound is the cost of one round of the pipeline.
type pipelineRound struct {
	Bytes      int64   `json:"bytes"` // of the sources
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"` // of the process
}

// pipelineChild is the program of that child; it returns the exit code.
func pipelineChild(root string) int {
	pool, helpers := &bulk.Pool{}, lucene.NewHelpers(runtime.GOMAXPROCS(0)-1)
	orders := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for orders.Scan() {
		begin, cpu := time.Now(), processorTime()
		n, err := pipeline(context.Background(), root, pool, helpers)
		if err == nil {
			err = answers.Encode(pipelineRound{Bytes: n, Seconds: time.Since(begin).Seconds(), CPUSeconds: (processorTime() - cpu).Seconds()})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// processorTime returns the CPU time of this process; 0 if the system does not report it.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pipelineReader is a process that runs the pipeline over a source repeatedly.
type pipelineReader struct {
	s     *source
	child *child
}

// startPipeline starts a process on a number of cores (0: all), which runs one round to warm up.
func startPipeline(ctx context.Context, s *source, cores int) (*pipelineReader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var environment []string
	if cores > 0 {
		environment = []string{fmt.Sprintf("GOMAXPROCS=%d", cores)}
	}
	c, err := startChildWith(ctx, environment, self, pipelineVerb, s.Repo)
	if err != nil {
		return nil, err
	}
	p := &pipelineReader{s, c}
	_, err = p.round()
	return p, err
}

// round runs the pipeline once.
func (p *pipelineReader) round() (pipelineRound, error) {
	var r pipelineRound
	err := p.child.ask(&r)
	if err == nil && r.Bytes != p.s.Bytes {
		err = fmt.Errorf("the pipeline reads %d bytes of %d", r.Bytes, p.s.Bytes)
	}
	return r, err
}

func (p *pipelineReader) close() error { return p.child.close() }

// pipeline reads all shards of the snapshot in sequence and returns the bytes of the sources.
func pipeline(ctx context.Context, root string, pool *bulk.Pool, helpers *lucene.Helpers) (int64, error) {
	blobs, err := repo.NewDir(root)
	if err != nil {
		return 0, err
	}
	catalog, err := snapshot.OpenCatalog(ctx, blobs)
	if err != nil {
		return 0, err
	}
	snap, err := catalog.Snapshot(ctx, snapshotName)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, x := range snap.Indices {
		n, err := readIndex(ctx, blobs, snap, x.Name, pool, helpers)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func readIndex(ctx context.Context, blobs *repo.Dir, snap *snapshot.Snapshot, name string, pool *bulk.Pool, helpers *lucene.Helpers) (int64, error) {
	index, err := snap.Index(ctx, name)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for n := range index.NumShards {
		shard, err := snapshot.OpenShard(ctx, blobs, index.Locator, n)
		if err != nil {
			return 0, err
		}
		commit, err := lucene.Open(ctx, shard.Directory(), lucene.Options{})
		if err != nil {
			return 0, err
		}
		loader := bulk.New(ctx, bulk.Options{Sender: &export.Discard{}, Index: name, MaxBytes: 5 << 20, MaxInFlight: 2, Pool: pool})
		if err := load(ctx, commit.Reader(lucene.ReadOptions{Helpers: helpers}), doc.NewDecoder(name, n), loader); err != nil {
			return 0, err
		}
		total += loader.Counts().Bytes
	}
	return total, nil
}

func load(ctx context.Context, r *lucene.Reader, decoder *doc.Decoder, loader *bulk.Loader) error {
	defer r.Close()
	for {
		rec, err := r.Next(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = loader.Flush(ctx)
			}
			return err
		}
		d, failure := decoder.Decode(rec)
		if failure != nil {
			return errors.New(failure.Detail)
		}
		if err := loader.Add(ctx, d); err != nil {
			return err
		}
	}
}
