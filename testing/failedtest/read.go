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

// identity is what makes two lines the same failure: an item that was run again after
// a crash records its failures again. The id is part of it because documents of
// different source indices may go to one target index.
type identity struct {
	index, id string
	shard     int
	ordinal   int64
}

// Read yields every failure in dir and the directories below it once, files in order of their names; the first
// record of a failure counts. An unfinished last line of a file is skipped, any other line
// that cannot be read is an error (fault.ErrCorrupt), after which reading goes on. A directory that
// does not exist holds no failures.
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

// errEnough ends the reading for a consumer that wants no more.
var errEnough = errors.New("enough")

// readFile yields the failures of one file that were not seen before; false when the consumer has enough.
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

// Parse reads one line.
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
