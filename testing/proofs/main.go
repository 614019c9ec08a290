// Command proofs asks real source clusters what the conversion rules of rfs/destination/metadata must
// preserve: for each case it creates an index, sends documents and runs a query, and writes what
// the cluster says to a golden file.
//
//	go run ./testing/proofs [-out rfs/destination/metadata/testdata/proofs] [version …]
//
// Cases that the source refuses are told and written nowhere.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/rest"
)

// document is one that a case sends.
type document struct {
	ID      string          `json:"id"`
	Type    string          `json:"type,omitempty"`
	Parent  string          `json:"parent,omitempty"`
	Routing string          `json:"routing,omitempty"`
	Source  json.RawMessage `json:"source"`
}

// golden is what the source says.
type golden struct {
	Rules      []string          `json:"rules"`
	Source     string            `json:"source"`   // version
	Settings   map[string]string `json:"settings"` // as the source returns them
	Mappings   json.RawMessage   `json:"mappings"`
	Documents  []document        `json:"documents"`
	Query      json.RawMessage   `json:"query"`
	Equivalent json.RawMessage   `json:"equivalent,omitempty"` // query for the target, where it has to be another one
	IDs        []string          `json:"ids"`                  // hits at the source, sorted
}

func main() {
	out := flag.String("out", "rfs/destination/metadata/testdata/proofs", "directory of the golden files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var failed error
	for _, s := range sources {
		if flag.NArg() == 0 || slices.Contains(flag.Args(), s.version) {
			failed = errors.Join(failed, s.run(ctx, *out))
		}
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, "proofs:", failed)
		os.Exit(1)
	}
}

// run boots one source and asks it about all of its cases.
func (s source) run(ctx context.Context, out string) (err error) {
	product, version := "elasticsearch", s.version
	if v, ok := strings.CutPrefix(version, "os"); ok {
		product, version = "opensearch", v
	}
	node, err := cluster.Boot(ctx, product, version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	c := rest.Client{URL: node.URL}
	var failed error
	for _, x := range s.cases {
		g, err := s.ask(ctx, c, x)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s of %s: %w", x.name, s.version, err))
			continue
		}
		b, err := json.MarshalIndent(g, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, x.name+".json"), append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	return failed
}

// ask lets the source answer one case.
func (s source) ask(ctx context.Context, c rest.Client, x proof) (golden, error) {
	const index = "proof"
	g := golden{Rules: x.rules, Source: s.version, Query: json.RawMessage(x.query), IDs: []string{}}
	if x.equivalent != "" {
		g.Equivalent = json.RawMessage(x.equivalent)
	}
	body := fmt.Sprintf(`{"settings":{"number_of_shards":1,"number_of_replicas":0%s},"mappings":%s}`, comma(x.settings), x.mappings)
	if _, err := c.Send(ctx, http.MethodPut, "/"+index, "", []byte(body)); err != nil {
		return g, err
	}
	defer func() { _, _ = c.Send(context.WithoutCancel(ctx), http.MethodDelete, "/"+index, "", nil) }()
	for i, d := range x.documents {
		d.ID = fmt.Sprint(i + 1)
		if err := send(ctx, c, s.types, index, d); err != nil {
			return g, err
		}
		if d.Parent != "" {
			d.Routing = d.Parent
		}
		g.Documents = append(g.Documents, d)
	}
	if _, err := c.Send(ctx, http.MethodPost, "/"+index+"/_refresh", "", nil); err != nil {
		return g, err
	}
	answer, err := c.Send(ctx, http.MethodGet, "/"+index+"?flat_settings=true", "", nil)
	if err != nil {
		return g, err
	}
	var all map[string]struct {
		Settings map[string]string
		Mappings json.RawMessage
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		return g, err
	}
	g.Settings, g.Mappings = all[index].Settings, all[index].Mappings
	if answer, err = c.Send(ctx, http.MethodPost, "/"+index+"/_search?size=100", "", []byte(`{"query":`+x.query+`}`)); err != nil {
		return g, err
	}
	var found struct {
		Hits struct {
			Hits []struct {
				ID string `json:"_id"`
			}
		}
	}
	if err := json.Unmarshal(answer, &found); err != nil {
		return g, err
	}
	for _, h := range found.Hits.Hits {
		g.IDs = append(g.IDs, h.ID)
	}
	slices.Sort(g.IDs)
	if len(g.IDs) == 0 || len(g.IDs) == len(x.documents) {
		return g, fmt.Errorf("the query finds %d of %d documents, which proves nothing", len(g.IDs), len(x.documents))
	}
	return g, nil
}

func send(ctx context.Context, c rest.Client, types bool, index string, d document) error {
	path, query := "/"+index+"/_doc/"+d.ID, url.Values{}
	if types {
		path = "/" + index + "/" + d.Type + "/" + d.ID
	}
	if d.Parent != "" {
		query.Set("parent", d.Parent)
	}
	if d.Routing != "" {
		query.Set("routing", d.Routing)
	}
	_, err := c.Send(ctx, http.MethodPut, path+"?"+query.Encode(), "", d.Source)
	return err
}

func comma(settings string) string {
	if settings == "" {
		return ""
	}
	return "," + settings
}
