package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rfsd/rfsd/testing/bench/corpus"
)

// users are the corpora with which each codec is measured.
var users = []corpus.Kind{corpus.Orders, corpus.Articles, corpus.Events}

// codecs are the rows of the part reading over the corpora of users. The goal applies to the corpus with the lowest ratio of the throughput
// of the whole process to the throughput of Lucene.
var codecs = []struct {
	name, codec, cluster string
	goal                 float64
}{
	{"LZ4", "default", ordinaryCluster, 2},
	{"DEFLATE", "best_compression", ordinaryCluster, 1.2},
	{"zstd, whole unit", "best_compression", "elasticsearch-8.19.21", 1},
	{"zstd, dictionary", "zstd", "opensearch-2.9.0", 1},
	{"zstd, no dictionary", "zstd_no_dict", "opensearch-2.9.0", 1},
}

// userSources returns the sources of codecs, for the rows whose names start with only.
func userSources(only string) (all []kind) {
	for _, c := range codecs {
		for _, u := range users {
			if strings.HasPrefix(c.name, only) {
				all = append(all, kind{Corpus: u, Codec: c.codec, Cluster: c.cluster, Shards: ordinaryShards, Documents: u.Usual()})
			}
		}
	}
	return all
}

// corpusRates are the rates of one corpus in MB of source per CPU second.
type corpusRates struct {
	corpus            corpus.Kind
	compressed        float64 // source ÷ files of stored fields
	once, long, other float64 // rfsd over the source; rfsd over a gigabyte of it; Lucene
}

// codecFigures compares, for each codec, whole processes of rfsd with Lucene over every corpus. The value of a row is the lowest value of
// its corpora.
func codecFigures(ctx context.Context, o options) (all []figure, err error) {
	for _, c := range codecs {
		if !strings.HasPrefix(c.name, o.only) {
			continue
		}
		var rates []corpusRates
		version := ""
		for _, k := range userSources(c.name) {
			s, err := cached(o.cache, k)
			if absent(k, err) {
				continue
			}
			if err != nil {
				return all, err
			}
			progress("%s, %s", c.name, k.Corpus)
			r, v, err := readCorpus(ctx, o, s)
			if err != nil {
				return all, fmt.Errorf("%s, %s: %w", c.name, k.Corpus, err)
			}
			rates, version = append(rates, r), v
		}
		if len(rates) == 0 {
			continue
		}
		all = append(all,
			worst(c.name+", 200 MB in one process", version, rates, func(r corpusRates) float64 { return r.once }, c.goal),
			worst(c.name+", 1 GB in one process", version, rates, func(r corpusRates) float64 { return r.long }, c.goal))
	}
	return all, nil
}

// worst returns the row of a codec over its corpora.
func worst(name, version string, rates []corpusRates, own func(corpusRates) float64, goal float64) figure {
	f := figure{Name: name, Goal: goal}
	var measured, beside []string
	for _, r := range rates {
		measured = append(measured, fmt.Sprintf("%s (%.1f : 1) %.0f", r.corpus, r.compressed, own(r)))
		beside = append(beside, fmt.Sprintf("%.0f", r.other))
		if v := own(r) / r.other; f.Value == 0 || v < f.Value {
			f.Value = v
		}
	}
	f.Measured = strings.Join(measured, ", ") + " MB per CPU second"
	f.Beside = "Lucene " + version + ": " + strings.Join(beside, ", ")
	return f
}

// readCorpus measures a source in alternating rounds: one process of rfsd over it, one over a gigabyte of it, and Lucene over the gigabyte,
// as the JVM reports its CPU time in steps of 10 ms. It also returns the version of Lucene.
func readCorpus(ctx context.Context, o options, s *source) (r corpusRates, version string, err error) {
	dir, err := os.MkdirTemp("", "rfsd-bench-reading-")
	if err != nil {
		return r, "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	long, err := s.repeated(dir)
	if err != nil {
		return r, "", err
	}
	progress("warming up Lucene")
	lucene, err := startLucene(ctx, o.cache, long)
	if err != nil {
		return r, "", err
	}
	defer func() { err = errors.Join(err, lucene.close()) }()
	var last luceneRound
	runs, err := alternate(o.rounds, byCPU,
		func() (run, error) { return discarded(ctx, o.rfsd, s) },
		func() (run, error) { return discarded(ctx, o.rfsd, long) },
		func() (x run, err error) {
			last, err = lucene.round()
			x.CPUSeconds = last.CPUSeconds
			return x, err
		})
	if err != nil {
		return r, "", err
	}
	rate := func(bytes int64, x run) float64 { return float64(bytes) / mega / x.CPUSeconds }
	return corpusRates{corpus: s.Kind, compressed: float64(long.Bytes) / float64(last.StoredBytes),
		once: rate(s.Bytes, runs[0]), long: rate(long.Bytes, runs[1]), other: rate(long.Bytes, runs[2])}, lucene.version, nil
}
