package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// report holds the results of one run of the benchmark.
type report struct {
	Source  source        `json:"source"`
	Lucene  *luceneRound  `json:"lucene,omitempty"`
	version string        // of Lucene
	Runs    []run         `json:"runs"`
	Target  *targetResult `json:"target,omitempty"`
	// NotRun names the measurements that were skipped, with the reasons.
	NotRun []string `json:"not_run,omitempty"`
}

// targetResult compares rfsd with the minimal client on a cluster.
type targetResult struct {
	Name string `json:"name"` // OpenSearch 2.19.4
	// ClientSeconds is the time of the minimal client for the bodies that rfsd sends.
	ClientSeconds float64 `json:"client_seconds"`
	// IndexedTwice is the number of documents that the cluster indexed in excess.
	IndexedTwice int64 `json:"documents_indexed_twice"`
	// Rejected is the number of rejections by the cluster's write queue, indexing pressure and circuit breakers.
	Rejected int64 `json:"rejected"`
}

func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

const mega = 1e6

func (r *report) writeText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d documents, %.1f MB of source, %.0f bytes each\n",
		r.Source.Kind, r.Source.Documents, float64(r.Source.Bytes)/mega, float64(r.Source.Bytes)/float64(r.Source.Documents))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tseconds\tdocuments/s\tMB/s\tCPU seconds\tMB per CPU second\tof Lucene\tread/shard\tread/stored\tpeak MB\tresent\tretried\t")
	if l := r.Lucene; l != nil {
		fmt.Fprintf(t, "Lucene, reading only\t\t\t\t%.3f\t%.0f\t1.00\t\t\t\t\t\t\n", l.CPUSeconds, float64(l.SourceBytes)/mega/l.CPUSeconds)
	}
	for _, x := range r.Runs {
		mb := float64(x.SourceBytes) / mega
		fmt.Fprintf(t, "%s\t%.2f\t%.0f\t%.1f\t%.3f\t%.0f\t%s\t%s\t%s\t%.0f\t%d\t%d\t\n", x.Name, x.Seconds, float64(x.Documents)/x.Seconds, mb/x.Seconds,
			x.CPUSeconds, mb/x.CPUSeconds, r.ofLucene(x), r.ofShard(x), r.ofStored(x), float64(x.PeakBytes)/mega, x.Resent, x.Retried)
	}
	if c := r.Target; c != nil {
		fmt.Fprintf(t, "minimal client → %s\t%.2f\t%.0f\t%.1f\t\t\t\t\t\t\t\t\t\n", c.Name, c.ClientSeconds,
			float64(r.Source.Documents)/c.ClientSeconds, float64(r.Source.Bytes)/mega/c.ClientSeconds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if c := r.Target; c != nil {
		for _, x := range r.Runs {
			if x.Name == "→ "+c.Name {
				fmt.Fprintf(w, "%s took rfsd's documents at %.2f of the minimal client's rate; %d documents indexed twice, %d rejections by the node\n",
					c.Name, c.ClientSeconds/x.Seconds, c.IndexedTwice, c.Rejected)
			}
		}
	}
	for _, s := range r.NotRun {
		fmt.Fprintf(w, "not measured: %s\n", s)
	}
	return nil
}

// ofLucene returns the ratio of the throughput per CPU second of the whole process to Lucene's.
func (r *report) ofLucene(x run) string {
	if r.Lucene == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", r.Lucene.CPUSeconds/x.CPUSeconds)
}

func (r *report) ofShard(x run) string {
	if r.Lucene == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(x.RepositoryBytes)/float64(r.Lucene.ShardBytes))
}

func (r *report) ofStored(x run) string {
	if r.Lucene == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(x.RepositoryBytes)/float64(r.Lucene.StoredBytes))
}
