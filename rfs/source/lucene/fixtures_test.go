package lucene_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/truth"
)

var fixtureRoot = filepath.Join("..", "..", "..", "testing", "fixtures")

// decodeID undoes the coding of a stored _id.
func decodeID(rec *lucene.Record) (typ, id string) {
	b := rec.ID
	switch {
	case rec.IDKind == lucene.IDUID:
		typ, id, _ = strings.Cut(string(b), "#")
		return typ, id
	case rec.IDKind == lucene.IDString || len(b) == 0:
		return "", string(b)
	case rec.IDKind == lucene.IDSeries:
		h := rec.RoutingHash[len(rec.RoutingHash)-4:]
		b = binary.BigEndian.AppendUint64(bytes.Clone(b), 1<<63-1-uint64(rec.Timestamp))
		return "", base64.RawURLEncoding.EncodeToString(append(b, h[3], h[2], h[1], h[0]))
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

// truthFile returns the dump of one snapshot of a fixture: the one that bears its name, else the only one.
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

// TestRealSnapshotsGiveEveryDocument reads all shards of all real snapshots and compares them with what the cluster itself
// held: each index has exactly the counts that testing/fixtures/expected.json states.
func TestRealSnapshotsGiveEveryDocument(t *testing.T) {
	expected, err := truth.LoadExpected(fixtureRoot)
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := os.ReadDir(fixtureRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if d.IsDir() {
			t.Run(d.Name(), func(t *testing.T) { readRepository(t, filepath.Join(fixtureRoot, d.Name()), expected) })
		}
	}
}

func readRepository(t *testing.T, dir string, expected truth.Expected) {
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
	stored, err := truth.LoadStored(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range cat.Snapshots {
		s, err := cat.Snapshot(ctx, ref.Name)
		if err != nil {
			t.Fatal(err)
		}
		files := []string{truthFile(dir, ref.Name)}
		if closed := dir + ".closed-index.ndjson.gz"; exists(closed) {
			files = append(files, closed)
		}
		want, err := truth.Load(true, files...)
		if err != nil {
			t.Fatal(err)
		}
		counts := expected[filepath.Base(dir)+"/"+ref.Name]
		if counts == nil {
			t.Errorf("nothing is expected of %s", ref.Name)
		}
		compareSnapshot(t, filepath.Base(dir), r, s, want, stored, counts)
	}
}

// compareSnapshot removes each document that it reads from want and expects nothing to be
// left, nor anything to be read that was missing.
func compareSnapshot(t *testing.T, name string, r snapshot.Repository, s *snapshot.Snapshot, want, stored truth.Docs, expected map[string]truth.Counts) {
	t.Helper()
	left := map[[2]string][]truth.Key{} // by index and id
	held := map[string]int{}
	for k := range want {
		at := [2]string{k.Index, k.ID}
		left[at] = append(left[at], k)
		held[k.Index]++
	}
	for _, x := range s.Indices {
		if held[x.Name] == 0 {
			continue // an index of the cluster's own, or one without documents
		}
		index, err := s.Index(context.Background(), x.Name)
		if err != nil {
			t.Fatal(err)
		}
		var got truth.Counts
		for n := range index.NumShards {
			sh, err := snapshot.OpenShard(t.Context(), r, index.Locator, n)
			if err != nil {
				if s.State == "PARTIAL" {
					continue // the shard is missing in the snapshot
				}
				t.Fatal(err)
			}
			readShard(t, sh.Directory(), index.Locator.NestedTerms(), func(rec *lucene.Record) {
				if rec.IDKind == lucene.IDNone {
					got.Absent++ // nothing names it
					return
				}
				typ, id := decodeID(rec)
				k, ok := take(left, truth.Key{Index: x.Name, Type: typ, ID: id, Routing: routing(rec)})
				if !ok {
					t.Errorf("%s/%d: read %q, which the cluster did not hold", x.Name, n, id)
					return
				}
				if !classify(&got, rec, want[k], stored[truth.Key{Index: k.Index, ID: k.ID, Routing: k.Routing}]) {
					t.Errorf("%s/%d %q: read %.100q, the cluster held %.100q", x.Name, n, id, rec.Source, want[k])
				}
			})
		}
		wanted := expected[x.Name].Stores()
		if n := expected[x.Name].Rebuilt; n > 0 && n == got.Stored { // stored without their vectors
			wanted.Absent, wanted.Stored = wanted.Absent-n, n
		}
		if strings.HasSuffix(name, "-sources") { // what rfs/document/doc converts is any of these here
			got.Equal, got.Minified, got.Values = got.Equal+got.Minified+got.Values, 0, 0
			wanted.Equal, wanted.Minified, wanted.Values = wanted.Equal+wanted.Minified+wanted.Values, 0, 0
		}
		if got != wanted {
			t.Errorf("%s: index %s: %+v, want %+v", s.Name, x.Name, got, wanted)
		}
	}
}

// classify counts a record; false for a source that is neither what the cluster answered nor what is known to be stored.
func classify(c *truth.Counts, rec *lucene.Record, want, stored []byte) bool {
	source := rec.Source
	if !rec.HasSource {
		source = rec.RecoverySource
	}
	switch {
	case !rec.HasSource && !rec.HasRecovery:
		c.Absent++
	case stored != nil:
		c.Stored++
		return bytes.Equal(source, stored)
	case bytes.Equal(source, want):
		c.Equal++
	case bytes.Equal(truth.Minify(source), truth.Minify(want)):
		c.Minified++
	case !json.Valid(source): // SMILE, CBOR or YAML: rfs/document/doc converts it, and its tests compare the values
		c.Values++
	default:
		return false
	}
	return true
}

// take finds and removes the key of a document; a type that is unknown matches any.
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

// routing returns the routing of a document: its parent when there is none of its own.
func routing(rec *lucene.Record) string {
	if rec.Routing == nil && rec.Parent != nil {
		_, parent, _ := strings.Cut(string(rec.Parent), "#")
		return parent
	}
	return string(rec.Routing)
}

func readShard(t *testing.T, dir lucene.Directory, nestedTerms bool, each func(*lucene.Record)) {
	t.Helper()
	c, err := lucene.Open(t.Context(), dir, lucene.Options{VerifyAll: true})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Reader(lucene.ReadOptions{NestedTerms: nestedTerms})
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
		if rec.Ordinal <= last {
			t.Fatalf("ordinal %d after %d", rec.Ordinal, last)
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
