package lucene

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
	"github.com/rfsd/rfsd/rfs/source/lucene/postings"
)

// mixedDirs are small segments that have between them every file that a reader may need.
var mixedDirs = []string{
	"shards/1.7.6-templates-0", "shards/2.4.6-templates-0", "shards/6.8.23-templates-0", "shards/7.10.2-multi-index-2", "shards/8.19.21-synthetic-0",
	"shards/9.5.3-timeseries-stored-0", "shards/os3.8.0-templates-0", "columns/4.5.1-300", "columns/4.8.1-disk-300", "columns/4.9.1-300",
	"vectors/8.6.2-hnsw", "vectors/9.5.3-hnsw", "text/4.10.4", "text/5.5.4", "text/8.5.0", "text/8.7.0", "text/9.0.0", "text/10.5.1",
}

// part is a file of a segment, in a compound file or next to it.
type part struct {
	file      string // of the directory
	off, size int
	name      string // of the segment and what follows it
}

func (p part) ext() string  { return filepath.Ext(p.name) }
func (p part) stem() string { return strings.TrimSuffix(p.name, p.ext()) }

// partsOf lists the files of a directory, those of compound files apart.
func partsOf(t testing.TB, dir mapDir) (all []part) {
	t.Helper()
	for _, name := range dir.List() {
		if !strings.HasSuffix(name, ".cfs") {
			all = append(all, part{name, 0, len(dir[name]), name})
		}
		if !strings.HasSuffix(name, ".cfe") {
			continue
		}
		sections, err := parseCompound(dir[name], "")
		if err != nil {
			t.Fatal(name, err)
		}
		for _, suffix := range slices.Sorted(maps.Keys(sections)) {
			s := sections[suffix]
			all = append(all, part{strings.TrimSuffix(name, "e") + "s", int(s.off), int(s.size), strings.TrimSuffix(name, ".cfe") + suffix})
		}
	}
	return all
}

// withVersion states another version in the header of a file; false for a file without a header.
func withVersion(dir mapDir, p part, version int32) bool {
	b := dir[p.file][p.off : p.off+p.size]
	if len(b) < 9 || binary.BigEndian.Uint32(b) != 0x3FD76C17 || int(b[4]) > len(b)-9 {
		return false
	}
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[5+int(b[4]):], uint32(version))
	whole := bytes.Clone(dir[p.file])
	copy(whole[p.off:], reseal(b))
	dir[p.file] = reseal(whole)
	return true
}

// withoutPart takes a file out of a directory, or the name of it out of the table of a compound file.
func withoutPart(dir mapDir, p part) {
	if p.file == p.name {
		delete(dir, p.file)
		return
	}
	table := strings.TrimSuffix(p.file, "s") + "e"
	_, suffix, _ := strings.Cut(p.name, strings.TrimSuffix(p.file, ".cfs"))
	dir[table] = reseal(bytes.Replace(dir[table], []byte(suffix), bytes.Repeat([]byte("-"), len(suffix)), 1))
}

// readEverything reads the first documents of each segment in every way that there is, and returns all errors.
func readEverything(ctx context.Context, dir mapDir) error {
	c, err := Open(ctx, dir, Options{Values: true})
	if err != nil {
		return err
	}
	var all []error
	for _, s := range c.Segments {
		for _, opt := range []ReadOptions{{From: s.Base, Values: true}, {From: s.Base, Versions: true}} {
			r := c.Reader(opt)
			rec, err := r.Next(ctx)
			if err == nil && rec.Values != nil && rec.Segment == s {
				all = append(all, readValues(ctx, rec.Values, rec.DocID))
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			all = append(all, err, r.Close())
		}
	}
	return errors.Join(all...)
}

// readValues reads every field of a document from everything that may hold it.
func readValues(ctx context.Context, v *Values, doc int32) error {
	var all []error
	var names []string
	v.Names(func(name string) { names = append(names, name) })
	slices.Sort(names)
	for _, name := range names {
		for _, read := range []func(context.Context, string) (*Column, error){v.Column, v.Vector} {
			c, err := read(ctx, name)
			if c != nil {
				var n int
				if n, err = c.Advance(ctx, doc); n > 0 && err == nil {
					if k := c.Kind(); k == columns.Numeric || k == columns.SortedNumeric {
						_, err = c.Number(ctx, 0)
					} else {
						_, err = c.Bytes(ctx, 0)
					}
				}
			}
			all = append(all, err)
		}
		for _, read := range []func() (*Text, error){
			func() (*Text, error) { return v.Text(ctx, name, 1) },
			func() (*Text, error) { return v.Terms(ctx, name) },
			func() (*Text, error) {
				f, err := v.Features(ctx, name, 1)
				if f == nil {
					return nil, err
				}
				return f.text, err
			},
		} {
			x, err := read()
			if x != nil {
				if _, err = x.Tokens(ctx, doc); errors.Is(err, postings.ErrLong) {
					err = nil
				}
			}
			all = append(all, err)
		}
	}
	all = append(all, v.Stored(func(StoredValue) error { return nil }))
	return errors.Join(all...)
}

// categorized reports whether each error is a damage or something that is not read.
func categorized(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // each part is looked at
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !categorized(e) })
	}
	return err == nil || errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrUnsupported)
}

func mixedDir(t testing.TB, name string) mapDir {
	return zipDir(t, filepath.Join("testdata", name+".zip")).without(documentsFile)
}

// TestVersionMixes_AreReadOrRefused reads real segments of which one file states another version, the segment info states one as
// well, and one of the files with the same name is missing: no combination ends the process, and each error has a category.
func TestVersionMixes_AreReadOrRefused(t *testing.T) {
	versions := []int32{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	if testing.Short() {
		versions = []int32{1, 6} // a run without -short has them all
	}
	for _, name := range mixedDirs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := mixedDir(t, name)
			parts := partsOf(t, dir)
			mixes, refused := 0, 0
			try := func(d mapDir, format string, args ...any) {
				mixes++
				err := readEverything(t.Context(), d)
				if err != nil {
					refused++
				}
				if !categorized(err) {
					t.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
				}
			}
			var infos []part
			for _, p := range parts {
				if p.ext() == ".si" {
					infos = append(infos, p)
				}
			}
			for _, p := range parts {
				for _, version := range versions {
					d := maps.Clone(dir)
					if !withVersion(d, p, version) {
						break
					}
					try(d, "%s states version %d", p.name, version)
					for _, info := range infos {
						if both := maps.Clone(d); version >= 0 && info != p && withVersion(both, info, version) {
							try(both, "%s and %s state version %d", p.name, info.name, version)
						}
					}
					for _, gone := range parts {
						if gone == p || gone.stem() != p.stem() || version < 0 {
							continue
						}
						less := maps.Clone(d)
						withoutPart(less, gone)
						try(less, "%s states version %d, without %s", p.name, version, gone.name)
					}
				}
			}
			if mixes < 5*len(versions) || refused == 0 {
				t.Errorf("%d mixes, %d of them refused", mixes, refused)
			}
			if err := readEverything(t.Context(), dir); !categorized(err) {
				t.Error(err)
			}
		})
	}
}

// TestVersionMixes_NameTheFileThatIsMissing: terms whose header states a version that has its fields in a .tmd, in a segment
// that has none.
func TestVersionMixes_NameTheFileThatIsMissing(t *testing.T) {
	dir := mixedDir(t, "text/8.5.0")
	for _, p := range partsOf(t, dir) {
		if p.ext() == ".tim" && !withVersion(dir, p, 6) {
			t.Fatalf("%s has no header", p.name)
		}
	}
	_, err := textValues(t, dir).Text(t.Context(), "body", 1)
	if d, ok := errors.AsType[*fault.Damage](err); !ok || filepath.Ext(d.File) != ".tmd" || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

// FuzzVersionMixes is TestVersionMixes_AreReadOrRefused for any two versions and any two files that are missing.
func FuzzVersionMixes(f *testing.F) {
	dirs := make([]mapDir, len(mixedDirs))
	all := make([][]part, len(mixedDirs))
	for i, name := range mixedDirs {
		dirs[i] = mixedDir(f, name)
		all[i] = partsOf(f, dirs[i])
		for n := range min(len(all[i]), 8) {
			f.Add(i, n, int32(n), n+1, int32(n+2), -1, n+3)
		}
	}
	f.Fuzz(func(t *testing.T, dir, a int, versionA int32, b int, versionB int32, goneA, goneB int) {
		n := int(uint(dir) % uint(len(dirs)))
		d, parts := maps.Clone(dirs[n]), all[n]
		at := func(i int) part { return parts[uint(i)%uint(len(parts))] }
		withVersion(d, at(a), versionA)
		withVersion(d, at(b), versionB)
		for _, gone := range []int{goneA, goneB} {
			if gone >= 0 && d[at(gone).file] != nil {
				withoutPart(d, at(gone))
			}
		}
		wellBehaved(t, 0, func() error {
			if err := readEverything(t.Context(), d); !categorized(err) {
				return err
			}
			return nil
		})
	})
}
