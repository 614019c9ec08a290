// Command bench measures rfsd with a snapshot of about 200 MB of JSON created by a real Elasticsearch 7.10.2: reading compared with
// Lucene's own reader, exporting, and migrating into a real OpenSearch compared with a minimal client. `make bench` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
)

type options struct {
	rfsd      string
	kind      kind
	rounds    int
	target    string // OpenSearch version; none: no target
	targetURL string
	lucene    bool
	peers     int    // documents to migrate with other programs as well; the other measurements are skipped
	columns   int    // documents whose columns are read; the other measurements are skipped
	part      string // part of the table in the document; the other measurements are skipped
	only      string // prefix of the rows of the parts sources and reading
	document  string // file with the table
	json      bool
	cache     string
}

func main() {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case measureVerb:
			os.Exit(measureChild(os.Args[2:]))
		case pipelineVerb:
			os.Exit(pipelineChild(os.Args[2]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := bench(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.rfsd, "rfsd", "bin/rfsd", "the program to measure")
	name := fs.String("corpus", string(corpus.Mixed), "mixed (access logs and orders, 0.9 KB), wide (4 KB), long (1 MB), logs (324-byte lines), tiny (39-byte counters), orders (ids and numbers), articles (eight languages) or events (logs of containers)")
	fs.StringVar(&o.kind.Cluster, "source", ordinaryCluster, "product and version of the cluster that makes the snapshot")
	fs.IntVar(&o.kind.Shards, "shards", ordinaryShards, "shards of the source's index")
	fs.StringVar(&o.kind.Codec, "codec", "default", "index.codec of the source: default (LZ4), best_compression (DEFLATE), or zstd, zstd_no_dict of OpenSearch")
	fs.IntVar(&o.kind.Documents, "documents", 0, "documents to index (0: about 200 MB of them)")
	fs.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement; the median counts, and the largest memory")
	fs.StringVar(&o.target, "target", "2.19.4", "version of OpenSearch to migrate into, or none")
	fs.StringVar(&o.targetURL, "target-url", "", "a running cluster to migrate into, instead of starting one; its index bench is deleted")
	fs.BoolVar(&o.lucene, "lucene", true, "read the shards with Lucene, too (needs a JDK and Maven)")
	fs.IntVar(&o.columns, "columns", 0, "only compare the reading of doc values of this many documents with Lucene")
	fs.IntVar(&o.peers, "peers", 0, "index so many documents in Elasticsearch 7.10.2 and migrate them into OpenSearch by rfsd and by other programs, and nothing else")
	fs.StringVar(&o.part, "part", "", "measure a part of the table of docs/PERFORMANCE.md, and nothing else: all, "+strings.Join(partNames(), ", "))
	fs.StringVar(&o.only, "only", "", "of the parts sources and reading, the rows whose names start so (\"LZ4, 39 bytes\", \"DEFLATE\"), and keep no figures")
	fs.StringVar(&o.document, "write", "", "write the table of all parts that were measured, or with --peers theirs, into this file")
	output := fs.String("output", "text", "text or json")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.kind.Corpus = corpus.Kind(*name)
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.only != "" && (o.part != "reading" && o.part != "sources" || o.document != ""):
		return o, errors.New("--only is for --part sources and --part reading without --write")
	case *output != "text" && *output != "json":
		return o, fmt.Errorf("--output is text or json, not %q", *output)
	case o.rounds < 1 || o.kind.Shards < 1 || o.kind.Documents < 0 || o.columns < 0 || o.peers < 0:
		return o, errors.New("--rounds and --shards must be at least 1, --documents, --columns and --peers not negative")
	}
	o.json = *output == "json"
	if o.kind.Documents == 0 {
		o.kind.Documents = o.kind.Corpus.Usual()
	}
	var err error
	o.cache, err = cluster.CacheDir()
	return o, err
}

func bench(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.columns > 0 {
		return readColumns(ctx, o, os.Stdout)
	}
	if o.peers > 0 {
		return comparePeers(ctx, o)
	}
	if o.part != "" || o.document != "" {
		return table(ctx, o)
	}
	if err := provide(ctx, o.cache, o.kind); err != nil {
		return err
	}
	s, err := cached(o.cache, o.kind)
	if err != nil {
		return err
	}
	r := &report{Source: *s}
	if err := r.reading(ctx, o, s); err != nil {
		return err
	}
	if err := r.writing(ctx, o, s); err != nil {
		return err
	}
	if o.json {
		return r.writeJSON(os.Stdout)
	}
	return r.writeText(os.Stdout)
}

// provide creates the snapshots that are not in the cache.
func provide(ctx context.Context, cache string, kinds ...kind) error {
	absent := map[string][]kind{} // by cluster
	for _, k := range kinds {
		_, err := cached(cache, k)
		if isAbsent(err) {
			absent[k.Cluster] = append(absent[k.Cluster], k)
		} else if err != nil {
			return err
		}
	}
	for _, from := range slices.Sorted(maps.Keys(absent)) {
		if err := makeSources(ctx, cache, from, absent[from]); err != nil {
			return err
		}
	}
	return nil
}

// writing measures the migration into a cluster.
func (r *report) writing(ctx context.Context, o options, s *source) (err error) {
	if o.target == "none" && o.targetURL == "" {
		return nil
	}
	name, url := "cluster", o.targetURL
	if url == "" {
		name = "OpenSearch " + o.target
		progress("starting %s", name)
		node, stop, err := bootTarget(ctx, o.target)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		url = node
	}
	progress("migrating into %s", name)
	into, t, err := intoTarget(ctx, o.rfsd, s, name, url, o.rounds)
	if err != nil {
		return err
	}
	r.Runs, r.Target = append(r.Runs, into), t
	return nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// withStderr adds the standard error of a failed program.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(tail(exit.Stderr))))
	}
	return err
}
