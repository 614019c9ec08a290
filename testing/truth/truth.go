// Package truth compares the documents that a migration wrote with the source cluster's own account: one line per live document,
// dumped from the live cluster.
package truth

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Key identifies a document: in old versions the same id may exist under several types.
type Key struct{ Index, Type, ID, Routing string }

// Docs are raw sources by document; nil for a document without source.
type Docs map[Key]json.RawMessage

// Load reads dumps of a cluster (gzip NDJSON: _index, _type?, _id, _routing?, _parent?, _source or _line?).
// Without types, the type of every key is empty.
func Load(types bool, files ...string) (Docs, error) {
	docs := Docs{}
	for _, name := range files {
		err := lines(name, func(line []byte) error {
			var d struct {
				Index   string          `json:"_index"`
				Type    string          `json:"_type"`
				ID      string          `json:"_id"`
				Routing string          `json:"_routing"`
				Parent  string          `json:"_parent"`
				Source  json.RawMessage `json:"_source"`
				// Line is the exact line of a source with comments, which is not strict JSON.
				Line string `json:"_line"`
			}
			if err := json.Unmarshal(line, &d); err != nil {
				return err
			}
			k := Key{Index: d.Index, ID: d.ID, Routing: d.Routing}
			if k.Routing == "" {
				k.Routing = d.Parent
			}
			if types && d.Type != "_doc" {
				k.Type = d.Type
			}
			// A closed index has its own dump, in addition to the dump of all.
			if was, dup := docs[k]; dup && !bytes.Equal(was, d.Source) {
				return fmt.Errorf("document %v twice, and different", k)
			}
			docs[k] = d.Source
			if d.Line != "" {
				docs[k] = json.RawMessage(d.Line)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// LoadExport reads an export directory: action line, source line.
func LoadExport(dir string) (Docs, error) {
	docs := Docs{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == ".rfsd" {
				return filepath.SkipDir
			}
			return nil
		}
		if e.Name() == "rfsd-export.json" || e.Name() == "rfsd-mappings.json" { // not documents; other tests check them
			return nil
		}
		if !strings.Contains(e.Name(), ".ndjson") {
			return fmt.Errorf("%s is not an export file", path)
		}
		var action *Key
		return lines(path, func(line []byte) error {
			if action == nil {
				k, err := parseAction(line)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				action = &k
				return nil
			}
			if _, dup := docs[*action]; dup {
				return fmt.Errorf("%s: document %v twice", path, *action)
			}
			docs[*action] = bytes.Clone(line)
			action = nil
			return nil
		})
	})
	return docs, err
}

func parseAction(line []byte) (Key, error) {
	var a struct {
		Index *struct {
			Index   string `json:"_index"`
			Type    string `json:"_type"`
			ID      string `json:"_id"`
			Routing string `json:"routing"`
		} `json:"index"`
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil || a.Index == nil {
		return Key{}, fmt.Errorf("no action line: %.200q: %w", line, err)
	}
	k := Key{Index: a.Index.Index, Type: a.Index.Type, ID: a.Index.ID, Routing: a.Index.Routing}
	return k, nil
}

func lines(name string, each func([]byte) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	switch filepath.Ext(name) {
	case ".gz":
		z, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r = z
	case ".zst":
		z, err := zstd.NewReader(f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer z.Close()
		r = z
	}
	b := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: no line break at the end: %w", name, err)
		}
		if err := each(line[:len(line)-1]); err != nil {
			return err
		}
	}
}

// Class classifies a migrated document by its relation to the cluster's own.
type Class int

// The classes, from best to worst.
const (
	Equal    Class = iota // byte for byte
	Minified              // equal after removing blanks and line breaks outside strings
	Values                // the same JSON values (sources indexed as SMILE, CBOR or YAML)
	NoTruth               // the cluster returned no source (not stored or rebuilt)
	Different
	Missing // only in the cluster
	Extra   // only in the output
)

func (c Class) String() string {
	return [...]string{"equal", "minified", "values", "no-truth", "different", "missing", "extra"}[c]
}

// Diff is the result of a comparison, by index.
type Diff struct {
	Count    map[string]map[Class]int
	Examples map[Class][]Key // at most 5 each
}

// Of returns the number of documents of an index ("": of all) in a class.
func (d Diff) Of(index string, c Class) int {
	n := 0
	for name, counts := range d.Count {
		if index == "" || index == name {
			n += counts[c]
		}
	}
	return n
}

// Faults describes the documents that are different, missing or extra; "" if none are.
func (d Diff) Faults() string {
	var b strings.Builder
	for _, c := range []Class{Different, Missing, Extra} {
		if n := d.Of("", c); n > 0 {
			fmt.Fprintf(&b, "%d %s, such as %v; ", n, c, d.Examples[c])
		}
	}
	return b.String()
}

// Exact describes the documents that are not identical byte for byte; "" if all are.
func (d Diff) Exact() string {
	var b strings.Builder
	for c := Minified; c <= Extra; c++ {
		if n := d.Of("", c); n > 0 {
			fmt.Fprintf(&b, "%d %s, such as %v; ", n, c, d.Examples[c])
		}
	}
	return b.String()
}

// Compare classifies the documents of output by their differences from truth.
func Compare(truth, output Docs) Diff {
	d := Diff{Count: map[string]map[Class]int{}, Examples: map[Class][]Key{}}
	add := func(k Key, c Class) {
		if d.Count[k.Index] == nil {
			d.Count[k.Index] = map[Class]int{}
		}
		d.Count[k.Index][c]++
		if len(d.Examples[c]) < 5 {
			d.Examples[c] = append(d.Examples[c], k)
		}
	}
	for k, want := range truth {
		got, ok := output[k]
		if !ok {
			add(k, Missing)
			continue
		}
		add(k, classify(want, got))
	}
	for k := range output {
		if _, ok := truth[k]; !ok {
			add(k, Extra)
		}
	}
	return d
}

func classify(want, got []byte) Class {
	switch {
	case want == nil:
		return NoTruth
	case bytes.Equal(want, got):
		return Equal
	case bytes.Equal(Minify(want), Minify(got)):
		return Minified
	case sameValues(want, got):
		return Values
	}
	return Different
}

// Minify returns b without blanks and line breaks outside strings.
func Minify(b []byte) []byte {
	out := make([]byte, 0, len(b))
	inString := false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case inString && c == '\\' && i+1 < len(b):
			out = append(out, c)
			i++
			c = b[i]
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			continue
		}
		out = append(out, c)
	}
	return out
}

func sameValues(a, b []byte) bool {
	decode := func(x []byte) (any, bool) {
		dec := json.NewDecoder(bytes.NewReader(x))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil {
			return nil, false
		}
		return v, true
	}
	va, oka := decode(a)
	vb, okb := decode(b)
	return oka && okb && reflect.DeepEqual(canonical(va), canonical(vb))
}

// canonical returns a decoded JSON value with all fractions in one notation: 1.0E-7 equals 1e-07, but 1.0 does not equal 1.
func canonical(v any) any {
	switch x := v.(type) {
	case json.Number:
		if !strings.ContainsAny(x.String(), ".eE") {
			return x
		}
		const bits = 512 // enough to distinguish adjacent numbers of documents
		if f, _, err := big.ParseFloat(x.String(), 10, bits, big.ToNearestEven); err == nil {
			return json.Number(f.Text('p', 0))
		}
	case map[string]any:
		for k, e := range x {
			x[k] = canonical(e)
		}
	case []any:
		for i, e := range x {
			x[i] = canonical(e)
		}
	}
	return v
}
