package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	kindRedriven = "redriven"
	// mostRedriven limits the indices of one place with counts of their own. The others are summed under "".
	mostRedriven = 2000
	// mostRedrivenFiles limits the file names by which a place is recognized.
	mostRedrivenFiles = 200
)

// Redriven counts, for one place of failed documents, the documents that re-drives have delivered, and the rest.
type Redriven struct {
	Place string `json:"place"`
	// All is set for the list in the store, which also has documents of other places.
	All     bool            `json:"all,omitempty"`
	Indices []RedrivenIndex `json:"indices"` // by name
	// Files are digests of the names of some of its files.
	Files []string `json:"files,omitempty"`
	// Last is the last file whose documents were added.
	Last *RedrivenFile `json:"last,omitempty"`
}

// RedrivenIndex holds the counts of a target index.
type RedrivenIndex struct {
	Index     string `json:"index"`
	Delivered int64  `json:"delivered"`
	Left      int64  `json:"left"`
}

// RedrivenFile is a file of failed documents before its replacement. A file that is re-driven again with the same number of lines was not
// replaced: its documents count once.
type RedrivenFile struct {
	Name      string           `json:"name"`
	Lines     int              `json:"lines"`
	Documents map[string]int64 `json:"documents"` // delivered documents by target index
}

// All returns the records of all places whose failed documents were re-driven.
func (s Redrives) All(ctx context.Context) (all []Redriven, err error) {
	for r, err := range s.leases.List(ctx, kindRedriven) {
		var x Redriven
		if err == nil {
			err = r.Decode(&x)
		}
		if err != nil {
			return nil, fmt.Errorf("read the re-driven documents: %w", err)
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b Redriven) int { return cmp.Compare(a.Place, b.Place) })
	return all, nil
}

// NoteLeft records how many failed documents a place holds, by target index.
func (s Redrives) NoteLeft(ctx context.Context, place string, all bool, left map[string]int64) error {
	return s.change(ctx, place, all, func(by map[string]RedrivenIndex, _ *Redriven) {
		for name, x := range by {
			x.Left = 0
			by[name] = x
		}
		for name, n := range left {
			x := by[name]
			x.Left = n
			by[name] = x
		}
	})
}

// NoteMoved records the files of a place. Other places that had some of these files now hold nothing: they are the same directory under
// another path, or it was moved.
func (s Redrives) NoteMoved(ctx context.Context, place string, files []string) error {
	names := make([]string, len(files))
	for i, name := range files {
		sum := sha256.Sum256([]byte(name))
		names[i] = hex.EncodeToString(sum[:8])
	}
	slices.Sort(names)
	names = names[:min(len(names), mostRedrivenFiles)]
	all, err := s.All(ctx)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.Place == place || !slices.ContainsFunc(x.Files, func(name string) bool { return slices.Contains(names, name) }) {
			continue
		}
		if err := s.NoteLeft(ctx, x.Place, x.All, nil); err != nil {
			return err
		}
	}
	return s.change(ctx, place, false, func(_ map[string]RedrivenIndex, r *Redriven) { r.Files = names })
}

// Note records the delivered documents of a file, before the file is replaced. It may be repeated.
func (s Redrives) Note(ctx context.Context, place string, all bool, file RedrivenFile) error {
	return s.change(ctx, place, all, func(by map[string]RedrivenIndex, r *Redriven) {
		add := func(documents map[string]int64, sign int64) {
			for name, n := range documents {
				x := by[name]
				x.Delivered = max(x.Delivered+sign*n, 0)
				if sign > 0 {
					x.Left = max(x.Left-n, 0)
				}
				by[name] = x
			}
		}
		if last := r.Last; last != nil && last.Name == file.Name && last.Lines == file.Lines {
			add(last.Documents, -1)
		}
		file.Documents = boundedSums(file.Documents)
		add(file.Documents, 1)
		r.Last = &file
	})
}

// boundedSums returns the sums of at most mostRedriven names, and the sum of the others under "".
func boundedSums(of map[string]int64) map[string]int64 {
	if len(of) <= mostRedriven {
		return of
	}
	by := map[string]int64{}
	for i, name := range slices.Sorted(maps.Keys(of)) {
		if i >= mostRedriven {
			by[""] += of[name]
			continue
		}
		by[name] += of[name]
	}
	return by
}

// change applies a change to the record of a place.
func (s Redrives) change(ctx context.Context, place string, all bool, change func(by map[string]RedrivenIndex, r *Redriven)) error {
	var failed error
	_, err := s.leases.Update(ctx, kindRedriven+":"+cms.EventKey(place), kindRedriven, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		is := Redriven{Place: place, All: all}
		if len(r.Body) > 0 {
			if failed = r.Decode(&is); failed != nil {
				return r, cms.Lost
			}
		}
		by := map[string]RedrivenIndex{}
		for _, x := range is.Indices {
			by[x.Index] = x
		}
		change(by, &is)
		is.Indices = redrivenIndices(by)
		if r.Body, failed = json.Marshal(is); failed != nil {
			return r, cms.Lost
		}
		return r, cms.Applied
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("record the re-driven documents: %w", err)
	}
	return nil
}

// redrivenIndices returns the indices sorted by name, at most mostRedriven, and the sum of the others.
func redrivenIndices(by map[string]RedrivenIndex) []RedrivenIndex {
	all, rest := []RedrivenIndex{}, by[""]
	rest.Index = ""
	for _, name := range slices.Sorted(maps.Keys(by)) {
		x := by[name]
		switch {
		case name == "" || x.Delivered == 0 && x.Left == 0:
		case len(all) == mostRedriven:
			rest.Delivered, rest.Left = rest.Delivered+x.Delivered, rest.Left+x.Left
		default:
			x.Index = name
			all = append(all, x)
		}
	}
	if rest.Delivered > 0 || rest.Left > 0 {
		all = append([]RedrivenIndex{rest}, all...)
	}
	return all
}
