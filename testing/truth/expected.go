package truth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Counts are the numbers of documents of an index by class. Their sum is the number of documents of the cluster.
type Counts struct {
	Equal    int `json:"equal,omitempty"`    // byte for byte
	Minified int `json:"minified,omitempty"` // equal after removing blanks and line breaks outside strings
	Values   int `json:"values,omitempty"`   // the same JSON values
	Stored   int `json:"stored,omitempty"`   // byte for byte the stored source, which differs from the cluster's answer
	Absent   int `json:"absent,omitempty"`   // not stored and not rebuilt: counted as failed
	Rebuilt  int `json:"rebuilt,omitempty"`  // of Equal and Values: not stored, but rebuilt
}

// Documents returns the sum of all classes.
func (c Counts) Documents() int { return c.Equal + c.Minified + c.Values + c.Stored + c.Absent }

// Stores returns the counts for a reader of stored sources only: rebuilt documents are absent.
func (c Counts) Stores() Counts {
	equal := min(c.Equal, c.Rebuilt)
	c.Absent += c.Rebuilt
	c.Equal, c.Values, c.Rebuilt = c.Equal-equal, c.Values-(c.Rebuilt-equal), 0
	return c
}

// Expected is the exact result of exporting each snapshot: counts by "fixture/snapshot" and index.
type Expected map[string]map[string]Counts

const expectedFile = "expected.json"

// LoadExpected reads the results that are committed with the fixtures.
func LoadExpected(fixtures string) (Expected, error) {
	raw, err := os.ReadFile(filepath.Join(fixtures, expectedFile))
	if err != nil {
		return nil, err
	}
	var e Expected
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", expectedFile, err)
	}
	return e, nil
}

// Save writes the results to the directory of the fixtures.
func (e Expected) Save(fixtures string) error {
	raw, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(fixtures, expectedFile), append(raw, '\n'), 0o644)
}

// mayConvert reports whether a fixture has sources that were indexed as SMILE, CBOR or YAML, which are compared by value.
func mayConvert(snapshot string) bool {
	name, _, _ := strings.Cut(snapshot, "/")
	return strings.HasSuffix(name, "-sources")
}

// Count compares an export with the cluster's account, and with the stored sources that an independent reader found, index by
// index. fault describes differences that are never permitted: other sources, extra documents, equal values where bytes are required.
func Count(snapshot string, truth, stored, output Docs) (counts map[string]Counts, fault string) {
	counts = map[string]Counts{}
	var faults strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(truth), compareKeys) {
		want := truth[k]
		c := counts[k.Index]
		got, ok := output[k]
		bytesOf, reduced := stored[Key{Index: k.Index, ID: k.ID, Routing: k.Routing}]
		switch class := classify(want, got); {
		case !ok:
			c.Absent++
		case reduced && bytes.Equal(bytesOf, got):
			c.Stored++
		case reduced && class != Equal, class == NoTruth, class == Different, class == Values && !mayConvert(snapshot):
			fmt.Fprintf(&faults, "%v: read %.200q, the cluster held %.200q; ", k, got, want)
			continue
		case class == Equal:
			c.Equal++
		case class == Minified:
			c.Minified++
		case class == Values:
			c.Values++
		}
		counts[k.Index] = c
	}
	for _, k := range slices.SortedFunc(maps.Keys(output), compareKeys) {
		if _, ok := truth[k]; !ok {
			fmt.Fprintf(&faults, "%v is not a document of the cluster; ", k)
		}
	}
	return counts, faults.String()
}

func compareKeys(a, b Key) int {
	return slices.Compare([]string{a.Index, a.Type, a.ID, a.Routing}, []string{b.Index, b.Type, b.ID, b.Routing})
}

// LoadStored reads NAME.stored.ndjson.gz: the stored bytes of documents whose cluster returns another source or none, as found by
// a reader that shares no code with this project. Such a document arrives as it is stored, or as the cluster returns it. Without
// the file, LoadStored returns no documents.
func LoadStored(repository string) (Docs, error) {
	docs := Docs{}
	name := repository + ".stored.ndjson.gz"
	if _, err := os.Stat(name); os.IsNotExist(err) {
		return docs, nil
	}
	err := lines(name, func(line []byte) error {
		var d struct {
			Index   string `json:"_index"`
			ID      string `json:"_id"`
			Routing string `json:"_routing"`
			Stored  string `json:"_stored"`
		}
		if err := json.Unmarshal(line, &d); err != nil {
			return err
		}
		docs[Key{Index: d.Index, ID: d.ID, Routing: d.Routing}] = json.RawMessage(d.Stored)
		return nil
	})
	return docs, err
}

// Table returns the table of docs/VERSIONS.md.
func (e Expected) Table() string {
	var b strings.Builder
	b.WriteString("| snapshot | documents | byte for byte | minified | same values | as stored | not stored | rebuilt |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(e)) {
		var sum Counts
		for _, c := range e[name] {
			sum.Equal += c.Equal
			sum.Minified += c.Minified
			sum.Values += c.Values
			sum.Stored += c.Stored
			sum.Absent += c.Absent
			sum.Rebuilt += c.Rebuilt
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d |\n", name, sum.Documents(), sum.Equal, sum.Minified, sum.Values, sum.Stored, sum.Absent, sum.Rebuilt)
	}
	return b.String()
}
