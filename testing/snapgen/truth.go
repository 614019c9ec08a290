package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/testing/answers"
	"github.com/rfsd/rfsd/testing/truth"
)

// document is a line of a truth: a document as the cluster returned it.
type document struct {
	Index   string          `json:"_index"`
	Type    string          `json:"_type,omitempty"`
	ID      string          `json:"_id"`
	Routing string          `json:"_routing,omitempty"`
	Parent  string          `json:"_parent,omitempty"`
	Source  json.RawMessage `json:"_source,omitempty"`
	// Line is the exact source line if it is not plain JSON because of comments, which clusters accept.
	Line string `json:"_line,omitempty"`
}

// hit is a document of a search response; 1.x and 2.x may return routing and parent in fields.
type hit struct {
	document
	Fields struct {
		Routing string `json:"_routing"`
		Parent  string `json:"_parent"`
	} `json:"fields"`
}

type page struct {
	ScrollID string `json:"_scroll_id"`
	Hits     struct {
		Hits []hit
	}
}

// dump returns all refreshed live documents of the indices ("": of all open ones) from the search API, with the raw bytes of their
// sources. From sources with line breaks, blanks and line breaks outside of strings are removed.
func (l *lab) dump(ctx context.Context, indices string) ([]document, error) {
	if indices == "" {
		indices = "_all"
	}
	query := `{"size":200,"query":{"match_all":{}},"sort":["_doc"]}`
	if l.node.Product == "elasticsearch" && strings.HasPrefix(l.node.Version, "2.") {
		query = `{"size":200,"fields":["_source","_routing","_parent"],"query":{"match_all":{}},"sort":["_doc"]}`
	}
	if l.node.Product == "elasticsearch" && l.node.Version >= "9.2" { // since 9.2 answers lack vectors unless asked
		query = `{"size":200,"_source":{"exclude_vectors":false},"query":{"match_all":{}},"sort":["_doc"]}`
	}
	var p page
	if err := l.JSON(ctx, http.MethodPost, "/"+indices+"/_search?scroll=5m", query, &p); err != nil {
		return nil, err
	}
	var docs []document
	for len(p.Hits.Hits) > 0 {
		for _, h := range p.Hits.Hits {
			docs = append(docs, tidy(h))
		}
		scroll := p.ScrollID
		p = page{}
		if err := l.JSON(ctx, http.MethodPost, "/_search/scroll", map[string]string{"scroll": "5m", "scroll_id": scroll}, &p); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(docs, func(a, b document) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Routing, b.Routing))
	})
	return docs, nil
}

func tidy(h hit) document {
	d := h.document
	d.Routing = cmp.Or(d.Routing, h.Fields.Routing)
	d.Parent = cmp.Or(d.Parent, h.Fields.Parent)
	if d.Type == "_doc" {
		d.Type = ""
	}
	if bytes.ContainsAny(d.Source, "\n\r") {
		d.Source = truth.Minify(d.Source)
	}
	return d
}

// keep moves the repository, the truths and the accounts to out, and replaces an older version of the fixture.
func (l *lab) keep(out string) error {
	if err := l.stop(); err != nil {
		return err
	}
	if len(l.truths) == 0 || len(l.accounts) == 0 {
		return errors.New("the recipe took no snapshot")
	}
	base := filepath.Join(out, l.name)
	old, err := filepath.Glob(base + ".*")
	if err != nil {
		return err
	}
	for _, path := range append(old, base) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(base, os.DirFS(l.repo())); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(l.accounts, "", " ")
	if err != nil {
		return err
	}
	errs := []error{os.WriteFile(base+".metadata.json", append(raw, '\n'), 0o644)}
	if l.sent != nil {
		errs = append(errs, writeTruth(base+".sent.ndjson.gz", l.sent))
	}
	if l.stripped != nil {
		errs = append(errs, writeStored(base+".stored.ndjson.gz", l.stripped))
	}
	if l.answers != nil {
		errs = append(errs, answers.Save(base+".answers.json", l.answers))
	}
	for name, docs := range l.truths {
		file := base + ".ndjson.gz"
		if len(l.truths) > 1 || len(l.accounts) > 1 {
			file = fmt.Sprintf("%s.%s.ndjson.gz", base, name)
		}
		errs = append(errs, writeTruth(file, docs))
	}
	return errors.Join(errs...)
}

// writeTruth writes documents as gzipped lines; the bytes of sources stay unchanged.
func writeTruth(file string, docs []document) error { return writeLines(file, docs, document.line) }

// writeStored writes stored sources as gzipped lines.
func writeStored(file string, docs []document) error {
	return writeLines(file, docs, func(d document) ([]byte, error) {
		line, err := json.Marshal(map[string]string{"_index": d.Index, "_id": d.ID, "_stored": d.Line})
		return append(line, '\n'), err
	})
}

func writeLines(file string, docs []document, of func(document) ([]byte, error)) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, d := range docs {
		line, err := of(d)
		if err != nil {
			return fmt.Errorf("%s: %s/%s: %w", file, d.Index, d.ID, err)
		}
		if _, err := z.Write(line); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// line returns the document as a JSON line with its source unchanged; the JSON encoder would compact it.
func (d document) line() ([]byte, error) {
	source := d.Source
	d.Source = nil
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return nil, err
	}
	if source == nil {
		return b.Bytes(), nil
	}
	head := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	return slices.Concat(head, []byte(`,"_source":`), source, []byte("}\n")), nil
}
