package snapshot

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// allocated returns the bytes that f allocates in all, which its peak never exceeds.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileCatalogsAreRefusedByName(t *testing.T) {
	blanks := bytes.Repeat([]byte{' '}, 150<<20)
	snapshots := func(n int) []byte {
		return []byte(`{"snapshots":[` + strings.Repeat("{},", n) + `{}],"indices":{}}`)
	}
	nested := []byte(`{"snapshots":[],"indices":{}}`)
	for range 20 {
		nested = deflated(t, nested)
	}
	for _, c := range []struct {
		name  string
		blob  []byte
		words string
		most  uint64 // bytes
	}{
		{"layers of compression", nested, "compressed once at most", 4 << 20},
		{"blanks in DEFLATE", deflated(t, blanks), "decompresses to more than", 350 << 20},
		{"blanks in zstd", zstandard(t, blanks), "decompress", 350 << 20},
		{"many small entries", deflated(t, snapshots(10_000_000)), "entries take too much memory", 900 << 20},
		{"a deep value", []byte(`{"snapshots":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`), "neither JSON", 16 << 20},
		{"another shape", []byte(`{"snapshots":7}`), "7 where [ is expected", 4 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			took := allocated(func() { _, err = OpenCatalog(t.Context(), memory{"index-0": c.blob}) })
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "index-0") {
				t.Errorf("error %v, want %q", err, c.words)
			}
			if took > c.most {
				t.Errorf("%d MB were allocated for %d bytes", took>>20, len(c.blob))
			}
		})
	}
}

// TestEqualEntriesOfACatalogAreOneSnapshot: a few bytes of a compressed catalog would be read as often as they are repeated.
func TestEqualEntriesOfACatalogAreOneSnapshot(t *testing.T) {
	const entry = `{"name":"s","uuid":"u","state":1}`
	r := memory{"index-0": []byte(`{"snapshots":[` + strings.Repeat(entry+",", 1000) + `{"name":"s","uuid":"v","state":1},` + entry + `],"indices":{}}`)}
	c, err := OpenCatalog(t.Context(), r)
	if err != nil || len(c.Snapshots) != 2 {
		t.Errorf("%d snapshots, %v", len(c.Snapshots), err)
	}
}

func TestLargeCatalogsArrive(t *testing.T) {
	// 1,000 indices in 200 snapshots, each with its metadata: 200,000 entries twice.
	const snapshots, indices = 200, 1000
	var b bytes.Buffer
	b.WriteString(`{"snapshots":[`)
	for s := range snapshots {
		if s > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"daily-%d","uuid":"snapshot-uuid-%08d","state":1,"version":"8.11.0","index_metadata_lookup":{`, s, s)
		for i := range indices {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"index-id-%012d":"identifier-%08d"`, i, i)
		}
		b.WriteString("}}")
	}
	b.WriteString(`],"indices":{`)
	for i := range indices {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"logs-%d":{"id":"index-id-%012d","snapshots":[`, i, i)
		for s := range snapshots {
			if s > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"snapshot-uuid-%08d"`, s)
		}
		b.WriteString(`],"shard_generations":["g1",null]}`)
	}
	b.WriteString(`},"index_metadata_identifiers":{"identifier-00000007":"meta-7"}}`)
	c, err := OpenCatalog(t.Context(), memory{"index-3": b.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := c.Find("daily-199")
	if err != nil {
		t.Fatal(err)
	}
	x := c.indices["logs-7"]
	if len(c.indices) != indices || x.id != "index-id-000000000007" || !c.holds(x, ref.UUID) || c.holds(x, "another") || fmt.Sprint(x.generations) != "[g1 ]" {
		t.Errorf("%d indices, logs-7 is %+v", len(c.indices), x)
	}
	if got := c.identifiers[c.identifier(ref, x.id)]; got != "meta-7" {
		t.Errorf("metadata %q", got)
	}
}

func TestIndicesMayStandBeforeSnapshots(t *testing.T) {
	c, err := OpenCatalog(t.Context(), memory{"index-0": []byte(`{"indices":{"a":{"id":"x","snapshots":["u"]}},"snapshots":[{"name":"s","uuid":"u"}]}`)})
	if err != nil || !c.holds(c.indices["a"], "u") {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestHostileListsAreRefusedByName(t *testing.T) {
	s := &Shard{Manifest: "indices/x/0/snap-u.dat"}
	many := []byte(`{"name":"s","files":[` + strings.Repeat("{},", maxValues) + `{}]}`)
	if err := s.parse(many, "s"); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "values") {
		t.Error(err)
	}
	x := &Index{Name: "i"}
	for _, n := range []string{"1048576", "-1", "99999999999999999999"} {
		err := x.parse("meta", []byte(`{"i":{"settings":{"index.number_of_shards":"`+n+`"}}}`))
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), n) {
			t.Errorf("%s shards: %v", n, err)
		}
	}
	if testing.Short() {
		return
	}
	// A part of the mappings is compressed by itself; all parts together have a bound.
	parts := make([]string, 9)
	for i := range parts {
		parts[i] = fmt.Sprintf("%q", base64.StdEncoding.EncodeToString(deflated(t, append([]byte(`{"t":{}`), append(bytes.Repeat([]byte{' '}, 16<<20), '}')...))))
	}
	var err error
	took := allocated(func() { _, err = parseMappings([]byte("[" + strings.Join(parts, ",") + "]")) })
	if !errors.Is(err, fault.ErrCorrupt) || took > 700<<20 {
		t.Errorf("%v, %d MB", err, took>>20)
	}
}

// rule is a Repository that counts who holds a large blob.
type rule struct {
	memory
	held, asked int
}

func (r *rule) HoldLarge(context.Context) (func(), error) {
	r.held++
	r.asked++
	return func() { r.held-- }, nil
}

// TestLargeBlobsAreHeldByRule: those that are long, become long or hold many values, until they are parsed; a blob that is
// missing or damaged is not held while the reason is looked for.
func TestLargeBlobsAreHeldByRule(t *testing.T) {
	text := func(size int) []byte {
		return []byte(`{"snapshots":[],"indices":{},"x":"` + strings.Repeat("a", size) + `"}`)
	}
	for _, c := range []struct {
		name string
		blob []byte
		asks int
	}{
		{"a small one", text(1000), 0},
		{"a long one", text(smallBlob), 1},
		{"one that becomes long", deflated(t, text(smallText)), 1},
		{"one of many values", []byte(`{"snapshots":[],"indices":{},"x":[` + strings.Repeat("0,", smallValues) + `0]}`), 1},
		{"a damaged one", []byte(`{`), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &rule{memory: memory{"index-0": c.blob}}
			payload, b, done, err := readBlob(t.Context(), r, "index-0", "", maxCatalog)
			if held := r.held; held > c.asks || err != nil && held != 0 || err == nil && held != c.asks || r.asked != c.asks {
				t.Errorf("%d hold, %d asked: %v", held, r.asked, err)
			}
			if err == nil && (len(payload) == 0 || !bytes.Equal(b, c.blob)) {
				t.Errorf("%d of %d bytes", len(b), len(c.blob))
			}
			done()
			if r.held != 0 {
				t.Error("it is held for ever")
			}
			if _, err := OpenCatalog(t.Context(), r); r.held != 0 {
				t.Errorf("the catalog is held after it was read: %v", err)
			}
		})
	}
	r := &rule{memory: memory{}}
	if _, _, _, err := readBlob(t.Context(), r, "index-0", "", maxCatalog); !missing(err) || r.asked != 0 {
		t.Errorf("a missing blob: %v, %d asked", err, r.asked)
	}
	large := []byte(`{"snapshot":{"name":"s","uuid":"u","state":"SUCCESS","indices":[],"x":[` + strings.Repeat("0,", smallValues) + `0]}}`)
	r = &rule{memory: memory{"index-0": []byte(`{"snapshots":[{"name":"s","uuid":"u"}],"indices":{}}`), "snap-u.dat": frame(codecSnapshot, large)}}
	c, err := OpenCatalog(t.Context(), r)
	if err == nil {
		_, err = c.Snapshot(t.Context(), "s")
	}
	if err != nil || r.asked != 1 || r.held != 0 {
		t.Errorf("a snapshot: %v, %d asked, %d hold it after it was read", err, r.asked, r.held)
	}
}

// TestSettingsOfManyValuesAreRefused: words in strings are one value.
func TestSettingsOfManyValuesAreRefused(t *testing.T) {
	parse := func(values string) error {
		x := &Index{Name: "i"}
		return x.parse("meta", []byte(`{"i":{"settings":{"index.number_of_shards":"1","index.analysis":{"words":[`+values+`]}}}}`))
	}
	if err := parse(strings.Repeat(`"a, b, c \"d",`, maxSettings/2) + `"e"`); err != nil {
		t.Error(err)
	}
	if err := parse(strings.Repeat(`0,`, maxSettings) + `0`); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "settings") {
		t.Error(err)
	}
}
