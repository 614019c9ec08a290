// Command demo runs rfsd on a bundled snapshot of a real Elasticsearch 7.10.2 (`make demo`): it migrates the snapshot to files, or
// with -target opensearch to a real OpenSearch, which it starts, and shows the result. With -target follow it also starts a source,
// follows it while a client writes, and cuts over.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/rest"
)

const (
	snapshotName = "snap1"
	// shown is the maximum length of a printed line.
	shown = 110
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := demo(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	rfsd := flags.String("rfsd", filepath.Join("bin", "rfsd"), "the program to show")
	repo := flags.String("repo", filepath.Join("testing", "fixtures", "7.10.2-demo"), "snapshot repository")
	target := flags.String("target", "", "opensearch starts one (needs a JDK 17 and Maven); follow starts a source, too, and follows it; empty writes files")
	version := flags.String("version", "2.19.4", "version of OpenSearch to start")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || (*target != "" && *target != "opensearch" && *target != "follow") {
		return fmt.Errorf("unknown target %q: leave it empty, or name opensearch or follow", *target+flags.Arg(0))
	}
	dir, err := os.MkdirTemp("", "rfsd-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := run{rfsd: *rfsd, repo: *repo, dir: dir, out: out}
	switch *target {
	case "":
		return d.intoFiles(ctx)
	case "follow":
		return d.follow(ctx, *version)
	}
	if err := announce(out, "opensearch-"+*version); err != nil {
		return err
	}
	node, err := cluster.Boot(ctx, "opensearch", *version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	c, err := node.Client()
	if err != nil {
		return err
	}
	return d.intoCluster(ctx, c)
}

// announce prints the servers to start, and the servers to install because the cache lacks them.
func announce(out io.Writer, servers ...string) error {
	cache, err := cluster.CacheDir()
	if err != nil {
		return err
	}
	for _, name := range servers {
		dir := filepath.Join(cache, name)
		if _, err := os.Stat(dir); err == nil {
			fmt.Fprintf(out, "Starting %s from %s …\n", name, dir)
			continue
		}
		fmt.Fprintf(out, "Installing %s in %s (some 100 MiB, with Maven, once), then starting it. It needs a JDK and Maven, which `testing/setup.sh packages` installs as root …\n", name, dir)
	}
	return nil
}

type run struct {
	rfsd, repo, dir string
	out             io.Writer
}

// migrate runs rfsd with the given destination and prints the command.
func (d run) migrate(ctx context.Context, destination ...string) error {
	repo, err := filepath.Abs(d.repo)
	if err != nil {
		return err
	}
	args := append([]string{"migrate", "--repo-uri", "file://" + repo, "--snapshot-name", snapshotName}, destination...)
	fmt.Fprintf(d.out, "\n$ rfsd %s\n", strings.Join(args, " "))
	// The state is in the temporary directory, so that the demo can be repeated.
	args = append(args, "--failed-documents", filepath.Join(d.dir, "failed"), "--coordinator-file", filepath.Join(d.dir, "coordinator.db"), "--log-level", "warn")
	cmd := exec.CommandContext(ctx, d.rfsd, args...)
	cmd.Stdout, cmd.Stderr = d.out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s migrate: %w", d.rfsd, err)
	}
	return nil
}

// intoFiles exports the snapshot and shows the files with the first document of each index.
func (d run) intoFiles(ctx context.Context) error {
	export := filepath.Join(d.dir, "export")
	if err := d.migrate(ctx, "--export-dir", export); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "\nWhat came out, ready for the bulk API of any cluster:")
	return filepath.WalkDir(export, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == ".rfsd":
			return filepath.SkipDir
		case e.IsDir(), e.Name() == "rfsd-export.json": // the manifest
			return nil
		}
		return d.showFile(export, path)
	})
}

func (d run) showFile(export, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	name, err := filepath.Rel(export, path)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	var first []string
	n := 0
	for ; lines.Scan(); n++ {
		if n < 2 {
			first = append(first, short(lines.Text()))
		}
	}
	fmt.Fprintf(d.out, "  %s: %d documents\n    %s\n", name, n/2, strings.Join(first, "\n    "))
	return lines.Err()
}

// short truncates a line at a character boundary.
func short(line string) string {
	if r := []rune(line); len(r) > shown {
		return string(r[:shown]) + " …"
	}
	return line
}

// intoCluster migrates to a running cluster and prints some searches of it.
func (d run) intoCluster(ctx context.Context, c rest.Client) error {
	if err := d.migrate(ctx, "--target-host", c.URL); err != nil {
		return err
	}
	if err := c.JSON(ctx, http.MethodPost, "/_refresh", nil, nil); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nWhat OpenSearch answers at %s:\n", c.URL)
	for _, q := range []struct{ says, path, query string }{
		{"orders that are paid", "/sales/_search?size=1", `{"query":{"term":{"status":"paid"}}}`},
		{"orders with an item that costs more than 400", "/orders/_search?size=1", `{"query":{"nested":{"path":"items","query":{"range":{"items.price":{"gt":400}}}}}}`},
		{"log lines of errors", "/weblogs/_search?size=1", `{"query":{"term":{"level":"ERROR"}}}`},
		{"all of the catalogue", "/catalogue/_search?size=1", `{"query":{"match_all":{}}}`},
	} {
		if err := d.ask(ctx, c, q.says, q.path, q.query); err != nil {
			return err
		}
	}
	return d.counts(ctx, c)
}

func (d run) ask(ctx context.Context, c rest.Client, says, path, query string) error {
	var answer struct {
		Hits struct {
			Total struct{ Value int }
			Hits  []struct {
				ID     string          `json:"_id"`
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	if err := c.JSON(ctx, http.MethodPost, path, query, &answer); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  %s: %d\n", says, answer.Hits.Total.Value)
	for _, h := range answer.Hits.Hits {
		fmt.Fprintf(d.out, "    %s  %s\n", h.ID, short(string(h.Source)))
	}
	return nil
}

// counts prints the number of documents in each index.
func (d run) counts(ctx context.Context, c rest.Client) error {
	var indices []struct {
		Index string
		Count string `json:"docs.count"`
	}
	if err := c.JSON(ctx, http.MethodGet, "/_cat/indices?format=json&s=index", nil, &indices); err != nil {
		return err
	}
	fmt.Fprintln(d.out)
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "index\tLucene documents (nested items count)\t")
	for _, x := range indices {
		fmt.Fprintf(t, "%s\t%s\t\n", x.Index, x.Count)
	}
	return t.Flush()
}
