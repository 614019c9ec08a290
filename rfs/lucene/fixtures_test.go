package lucene_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/snapshot"
	"github.com/rfsd/rfsd/testing/truth"
)

// fixtureRoot is where real snapshots lie beside the repository.
func fixtureRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../../shared/fixtures")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err != nil {
		t.Skipf("no real snapshots here: %v", err)
	}
	return root
}

// decodeID undoes the coding of a stored _id.
func decodeID(rec *lucene.Record) (typ, id string) {
	b := rec.ID
	switch {
	case rec.IDKind == lucene.IDUID:
		typ, id, _ = strings.Cut(string(b), "#")
		return typ, id
	case rec.IDKind == lucene.IDString || len(b) == 0:
		return "", string(b)
	}
	switch b[0] {
	case 0xFF:
		return "", string(b[1:])
	case 0xFE:
		var s []byte
		for i, c := range b[1:] {
			s = append(s, '0'+c>>4)
			if i < len(b)-2 || c&15 != 15 {
				s = append(s, '0'+c&15)
			}
		}
		return "", string(s)
	case 0xFD:
		b = b[1:]
	}
	return "", base64.RawURLEncoding.EncodeToString(b)
}

// truthFile is the dump of one snapshot of a fixture: the one that bears its name, else the only one.
func truthFile(base, snap string) string {
	if own := base + "." + snap + ".ndjson.gz"; exists(own) {
		return own
	}
	return base + ".ndjson.gz"
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// TestRealSnapshotsGiveEveryDocument reads all shards of all real snapshots and compares
// them with what the cluster itself held.
func TestRealSnapshotsGiveEveryDocument(t *testing.T) {
	root := fixtureRoot(t)
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if d.IsDir() {
			t.Run(d.Name(), func(t *testing.T) { readRepository(t, filepath.Join(root, d.Name())) })
		}
	}
}

func readRepository(t *testing.T, dir string) {
	t.Parallel()
	ctx := t.Context()
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	cat, err := snapshot.OpenCatalog(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range cat.Snapshots {
		s, err := cat.Snapshot(ctx, ref.Name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := truth.Load(true, truthFile(dir, ref.Name))
		if err != nil {
			t.Fatal(err)
		}
		compareSnapshot(t, r, s, want)
	}
}

// compareSnapshot removes each document that it reads from want and expects nothing to be
// left, nor anything to be read that was not there.
func compareSnapshot(t *testing.T, r snapshot.Repository, s *snapshot.Snapshot, want truth.Docs) {
	t.Helper()
	left := map[[2]string][]truth.Key{} // by index and id
	indices := map[string]int{}
	for k := range want {
		at := [2]string{k.Index, k.ID}
		left[at] = append(left[at], k)
		indices[k.Index]++
	}
	missing := len(want)
	bare, equal, minified, reduced := 0, 0, 0, 0
	for _, x := range s.Indices {
		index, err := s.Index(context.Background(), x.Name)
		if err != nil {
			t.Fatal(err)
		}
		for n := range index.NumShards {
			sh, err := snapshot.OpenShard(t.Context(), r, index.Locator, n)
			if err != nil {
				t.Fatal(err)
			}
			readShard(t, sh.Directory(), func(rec *lucene.Record) {
				if indices[x.Name] == 0 {
					return // an index of the cluster's own
				}
				if rec.IDKind == lucene.IDNone {
					bare++
					return
				}
				typ, id := decodeID(rec)
				k, ok := take(left, truth.Key{Index: x.Name, Type: typ, ID: id, Routing: routing(rec)})
				v := want[k]
				if ok {
					missing--
				}
				switch {
				case !ok:
					t.Errorf("%s/%d: read %q, which the cluster did not hold", x.Name, n, id)
				case rec.HasSource && bytes.Equal(rec.Source, v):
					equal++
				case rec.HasSource && sameJSON(rec.Source, v):
					minified++
				case !rec.HasSource || partOf(rec.Source, v) || partOf(v, rec.Source):
					reduced++
				default:
					t.Errorf("%s/%d %q: read %.100q, the cluster held %.100q", x.Name, n, id, rec.Source, v)
				}
			})
		}
	}
	if missing > bare {
		t.Errorf("%d documents were not read, %d had no id", missing, bare)
	}
	t.Logf("%s: %d equal, %d equal but for blanks, %d not stored whole, %d without id, of %d", s.Name, equal, minified, reduced, bare, len(want))
	if equal+minified+reduced+bare != len(want) {
		t.Errorf("%d documents of %d", equal+minified+reduced+bare, len(want))
	}
}

// sameJSON says whether two texts differ in blanks only.
func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// partOf says whether an object is another one without some of its fields, as a cluster
// stores it that keeps them elsewhere.
func partOf(a, b []byte) bool {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil || len(x) >= len(y) {
		return false
	}
	for k, v := range x {
		if !sameJSON(v, y[k]) {
			return false
		}
	}
	return true
}

// take finds and removes the key of a document; a type that is not known matches any.
func take(left map[[2]string][]truth.Key, k truth.Key) (truth.Key, bool) {
	at := [2]string{k.Index, k.ID}
	for i, c := range left[at] {
		if c.Routing == k.Routing && (c.Type == k.Type || k.Type == "" || c.Type == "") {
			left[at] = append(left[at][:i:i], left[at][i+1:]...)
			return c, true
		}
	}
	return truth.Key{}, false
}

// routing is the routing of a document: its parent when there is none of its own.
func routing(rec *lucene.Record) string {
	if rec.Routing == nil && rec.Parent != nil {
		_, parent, _ := strings.Cut(string(rec.Parent), "#")
		return parent
	}
	return string(rec.Routing)
}

func readShard(t *testing.T, dir lucene.Directory, each func(*lucene.Record)) {
	t.Helper()
	c, err := lucene.Open(t.Context(), dir, lucene.Options{VerifyAll: true})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Reader(lucene.ReadOptions{})
	defer r.Close()
	last := int64(-1)
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Ordinal <= last || r.Ordinal() != rec.Ordinal+1 {
			t.Fatalf("ordinal %d after %d, the reader stands at %d", rec.Ordinal, last, r.Ordinal())
		}
		last = rec.Ordinal
		each(rec)
	}
	for _, v := range lucene.CombineChecks(r.Checks(c.MaxOrdinal)) {
		if v.Err != nil || !v.Verified {
			t.Errorf("%s is not verified: %v", v.File, v.Err)
		}
	}
}
