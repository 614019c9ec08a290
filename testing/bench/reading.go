package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// reading measures Lucene's reader, the pipeline alone, the dry run and, except for the table, the export, in alternating rounds.
func (r *report) reading(ctx context.Context, o options, s *source) (err error) {
	var lucene *luceneReader
	if o.lucene {
		progress("warming up Lucene")
		lucene, err = startLucene(ctx, o.cache, s)
		if errors.Is(err, exec.ErrNotFound) {
			r.NotRun = append(r.NotRun, "Lucene's reader: "+err.Error())
		} else if err != nil {
			return err
		}
	}
	if lucene != nil {
		r.version = lucene.version
		defer func() { err = errors.Join(err, lucene.close()) }()
	}
	alone, err := startPipeline(ctx, s, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.close()) }()
	progress("reading")
	measures := []func() (run, error){
		func() (run, error) { return alone.run() },
		func() (run, error) { return discarded(ctx, o.rfsd, s) },
	}
	if o.part == "" {
		measures = append(measures, func() (run, error) { return exported(ctx, o.rfsd, s) })
	}
	own := len(measures)
	if lucene != nil {
		measures = append(measures, func() (run, error) {
			x, err := lucene.round()
			r.Lucene = &x
			return run{usage: usage{CPUSeconds: x.CPUSeconds}}, err
		})
	}
	runs, err := alternate(o.rounds, byCPU, measures...)
	if err != nil {
		return err
	}
	if lucene != nil {
		r.Lucene.CPUSeconds = runs[own].CPUSeconds
	}
	r.Runs = append(r.Runs, runs[:own]...)
	return nil
}

// exported measures a migration into files, which it deletes.
func exported(ctx context.Context, rfsd string, s *source) (run, error) {
	dir, err := os.MkdirTemp("", "rfsd-bench-export-")
	if err != nil {
		return run{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return migration(ctx, rfsd, s, "--export-dir", "--export-dir", dir)
}

// run returns a round of the pipeline as a run.
func (p *pipelineReader) run() (run, error) {
	x, err := p.round()
	return run{Name: "pipeline", usage: usage{Seconds: x.Seconds, CPUSeconds: x.CPUSeconds}, Documents: int64(p.s.Documents), SourceBytes: x.Bytes}, err
}
