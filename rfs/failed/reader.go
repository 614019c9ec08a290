package failed

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/fault"
)

// identity is what makes two lines the same failure: an item that was run again after
// a crash records its failures again. The id is part of it because documents of
// different source indices may go to one target index.
type identity struct {
	index, id string
	shard     int
	ordinal   int64
}

// Read gives every failure in dir and the directories below it once, files in order of their names; the first
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
			case e.IsDir() || !strings.HasSuffix(e.Name(), extension):
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
		x, err := parseLine(b)
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

func parseLine(b []byte) (doc.Failure, error) {
	var l line
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

// Group is a number of failures of one index for one reason.
type Group struct {
	Index   string      `json:"index"`
	Reason  doc.Reason  `json:"reason"`
	Count   int64       `json:"count"`
	Example doc.Failure `json:"-"` // the first of them, without its source
}

// Summary groups the failures in dir by index and reason, the largest group first.
func Summary(dir string) ([]Group, error) {
	type key struct {
		index  string
		reason doc.Reason
	}
	groups := map[key]*Group{}
	for f, err := range Read(dir) {
		if err != nil {
			return nil, err
		}
		k := key{f.Index, f.Reason}
		g := groups[k]
		if g == nil {
			f.Source = nil
			g = &Group{Index: f.Index, Reason: f.Reason, Example: f}
			groups[k] = g
		}
		g.Count++
	}
	out := make([]Group, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Reason, b.Reason))
	})
	return out, nil
}
