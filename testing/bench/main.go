// Command bench measures rfsd on a snapshot of about 200 MB of JSON that a real Elasticsearch 7.10.2 made: reading
// beside Lucene's own reader, exporting, and into a real OpenSearch beside a minimal client. `make bench` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
)

type options struct {
	rfsd      string
	kind      corpus.Kind
	codec     string
	documents int
	rounds    int
	target    string // OpenSearch version, none for no target
	targetURL string
	lucene    bool
	columns   int // documents whose columns are read, instead of all else
	json      bool
	cache     string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == measureVerb {
		os.Exit(measureChild(os.Args[2:]))
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
	kind := fs.String("corpus", string(corpus.Mixed), "mixed (access logs and orders, 0.9 KB), logs (324-byte lines) or tiny (39-byte counters)")
	fs.StringVar(&o.codec, "codec", "default", "index.codec of the source: default (LZ4) or best_compression (DEFLATE)")
	fs.IntVar(&o.documents, "documents", 0, "documents to index (0: about 200 MB of them)")
	fs.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement; the best counts, and the largest memory")
	fs.StringVar(&o.target, "target", "2.19.4", "version of OpenSearch to migrate into, or none")
	fs.StringVar(&o.targetURL, "target-url", "", "a running cluster to migrate into, instead of starting one; its index bench is deleted")
	fs.BoolVar(&o.lucene, "lucene", true, "read the shards with Lucene, too (needs a JDK and Maven)")
	fs.IntVar(&o.columns, "columns", 0, "read columns of doc values of so many documents beside Lucene, and nothing else")
	output := fs.String("output", "text", "text or json")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.kind = corpus.Kind(*kind)
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case *output != "text" && *output != "json":
		return o, fmt.Errorf("--output is text or json, not %q", *output)
	case o.rounds < 1 || o.documents < 0 || o.columns < 0:
		return o, errors.New("--rounds must be at least 1, --documents and --columns not negative")
	}
	o.json = *output == "json"
	if o.documents == 0 {
		o.documents = 220_000
		switch o.kind {
		case corpus.Logs:
			o.documents = 650_000
		case corpus.Tiny:
			o.documents = 1_000_000
		}
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
	s, err := provide(ctx, o)
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

// provide gives the snapshot: the one in the cache, or a new one from a real cluster.
func provide(ctx context.Context, o options) (*source, error) {
	s, home, err := cached(o.cache, o.kind, o.codec, o.documents)
	if err == nil || !isAbsent(err) {
		return s, err
	}
	progress("making the snapshot: %d documents of kind %s, codec %s, in Elasticsearch 7.10.2", o.documents, o.kind, o.codec)
	return makeSource(ctx, home, o.kind, o.codec, o.documents)
}

// reading measures Lucene's reader, the dry run and the export.
func (r *report) reading(ctx context.Context, o options, s *source) error {
	if o.lucene {
		progress("reading with Lucene")
		l, err := readWithLucene(ctx, o.cache, s)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			r.NotRun = append(r.NotRun, "Lucene's reader: "+err.Error())
		case err != nil:
			return err
		default:
			r.Lucene = l
		}
	}
	progress("reading with rfsd")
	discard, err := best(o.rounds, byCPU, func() (run, error) { return migration(ctx, o.rfsd, s, "--discard", "--discard") })
	if err != nil {
		return err
	}
	progress("exporting with rfsd")
	export, err := best(o.rounds, byCPU, func() (run, error) {
		dir, err := os.MkdirTemp("", "rfsd-bench-export-")
		if err != nil {
			return run{}, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		return migration(ctx, o.rfsd, s, "--export-dir", "--export-dir", dir)
	})
	if err != nil {
		return err
	}
	r.Runs = append(r.Runs, discard, export)
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

// withStderr adds what a program that failed complained about.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(tail(exit.Stderr))))
	}
	return err
}
