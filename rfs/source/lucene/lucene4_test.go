package lucene

import (
	"archive/zip"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestRealIndicesOfEveryLucene4AreReadExactly reads what Lucene 4.0, 4.1, 4.2, 4.5 and 4.6.1
// themselves wrote: 35 documents with the stored field "id", of which number 7 was deleted, in
// several segments, and one document without an id. Their stored strings stand in for the
// fields of a shard: "id" for _uid, "content2" for _routing and "autf8" for _source.
func TestRealIndicesOfEveryLucene4AreReadExactly(t *testing.T) {
	names, err := filepath.Glob("testdata/lucene4/*.zip")
	if err != nil || len(names) < 6 {
		t.Fatalf("%d indices: %v", len(names), err)
	}
	roles := map[string]role{"id": roleUID, "content2": roleRouting, "autf8": roleSource}
	formats := map[string]bool{}
	for _, name := range names {
		dir := zipDir(t, name)
		c, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range c.Segments {
			for number, f := range fieldNames(t, dir, s.Name) {
				if r, ok := roles[f]; ok {
					s.fields[number] = r
				}
			}
		}
		found := map[string]bool{}
		r := c.Reader(ReadOptions{To: c.MaxOrdinal})
		for {
			rec, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			id := string(rec.ID)
			if found[id] || string(rec.Routing) != "here is more content with aaa aaa aaa" ||
				string(rec.Source) != "Lu\U0001D11Ece\U0001D160ne \x00 \u2620 ab\U00055C17cd" {
				t.Errorf("%s: document %q: %q %q", name, id, rec.Routing, rec.Source)
			}
			found[id] = true
		}
		r.Close()
		for i := range 35 {
			if id := strconv.Itoa(i); found[id] != (i != 7) {
				t.Errorf("%s: document %s found: %v", name, id, found[id])
			}
		}
		if len(found) != 34 {
			t.Errorf("%s: %d documents", name, len(found))
		}
		formats[strings.SplitN(filepath.Base(name), ".", 2)[0]] = true
	}
	if len(formats) < 5 {
		t.Errorf("only %v", formats)
	}
}

// fieldNames reads the names of a segment's fields by their numbers.
func fieldNames(t *testing.T, dir mapDir, segment string) map[int32]string {
	t.Helper()
	b := dir[segment+".fnm"]
	if cfe, ok := dir[segment+".cfe"]; ok {
		sections, err := parseCompound(cfe, "")
		if err != nil {
			t.Fatal(err)
		}
		for name, at := range sections {
			if strings.HasSuffix(name, ".fnm") {
				b = dir[segment+".cfs"][at.off : at.off+at.size]
			}
		}
	}
	fi, err := parseFieldInfos(b, "")
	if err != nil {
		t.Fatal(err)
	}
	names := map[int32]string{}
	for n, f := range fi.fields {
		names[n] = f.name
	}
	return names
}

func zipDir(t testing.TB, name string) mapDir {
	t.Helper()
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir := mapDir{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if dir[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
