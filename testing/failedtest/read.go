// Package failedtest reads the lines that package failed writes, for tests.
package failedtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// identity identifies a failure: an item that is repeated after a crash records its failures again. It includes the id because documents of
// different source indices may have the same target index.
type identity struct {
	index, id string
	shard     int
	ordinal   int64
}

// Read yields each failure below dir once, in the order of the file names; of repeated records the first one. It skips an unfinished last
// line of a file. Any other line that cannot be parsed yields a fault.ErrCorrupt, and reading continues. A missing directory has no
// failures.
func Read(dir string) iter.Seq2[doc.Failure, error] {
	return func(yield func(doc.Failure, error) bool) {
		seen := map[identity]bool{}
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			switch {
			case path == dir && errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case e.IsDir() || !strings.HasSuffix(e.Name(), ".ndjson"):
				return nil
			case !readFile(path, seen, yield):
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(doc.Failure{}, err)
		}
	}
}

// errEnough ends reading when the consumer stops.
var errEnough = errors.New("enough")

// readFile yields the failures of one file that are not in seen; false when the consumer stops.
func readFile(path string, seen map[identity]bool, yield func(doc.Failure, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return yield(doc.Failure{}, err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		b, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return yield(doc.Failure{}, fmt.Errorf("read %s: %w", path, err))
		}
		x, err := Parse(b)
		if err != nil {
			if !yield(doc.Failure{}, fmt.Errorf("%s line %d: %w: %w", path, n, err, fault.ErrCorrupt)) {
				return false
			}
			continue
		}
		key := identity{x.Index, x.ID, x.Shard, x.Ordinal}
		if seen[key] {
			continue
		}
		seen[key] = true
		if !yield(x, nil) {
			return false
		}
	}
}

// Parse parses one line.
func Parse(b []byte) (doc.Failure, error) {
	var l struct {
		Index   string          `json:"index"`
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Routing string          `json:"routing"`
		Shard   int             `json:"shard"`
		Ordinal int64           `json:"ordinal"`
		Reason  doc.Reason      `json:"reason"`
		Status  int             `json:"status"`
		Detail  string          `json:"detail"`
		Source  json.RawMessage `json:"source"`
		Base64  []byte          `json:"source_base64"`
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return doc.Failure{}, err
	}
	f := doc.Failure{Index: l.Index, ID: l.ID, Type: l.Type, Routing: l.Routing, Shard: l.Shard,
		Ordinal: l.Ordinal, Reason: l.Reason, Status: l.Status, Detail: l.Detail, Source: l.Base64}
	if l.Source != nil {
		f.Source = l.Source
	}
	return f, nil
}
