package corpus

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"slices"
	"testing"
)

func TestDocumentsAreJSONOfTheStatedSize(t *testing.T) {
	for kind, want := range map[Kind]int{Mixed: 900, Logs: 324, Tiny: 39, Wide: 4050, Long: 1_000_000, Orders: 946, Articles: 3069, Events: 1132} {
		c, err := New(kind)
		if err != nil {
			t.Fatal(err)
		}
		n := min(20000, 20_000_000/want)
		total := 0
		var doc []byte
		for i := range n {
			doc = c.Append(doc[:0], i, 0)
			total += len(doc)
			if !json.Valid(doc) {
				t.Fatalf("%s: document %d is not JSON: %s", kind, i, doc)
			}
			if bytes.ContainsAny(doc, "\n\r") {
				t.Fatalf("%s: document %d holds a line break", kind, i)
			}
		}
		if mean := total / n; mean < want*97/100 || mean > want*103/100 {
			t.Errorf("%s: %d bytes on average, want about %d", kind, mean, want)
		}
	}
}

// TestTheDocumentsOfUsersCompressAsStated cuts 48 KiB at a time, as the codecs of Lucene do.
func TestTheDocumentsOfUsersCompressAsStated(t *testing.T) {
	for kind, want := range map[Kind]float64{Orders: 2, Articles: 4, Events: 10} {
		c, err := New(kind)
		if err != nil {
			t.Fatal(err)
		}
		var raw []byte
		for i := 0; len(raw) < 1<<20; i++ {
			raw = c.Append(raw, i, 0)
		}
		var compressed bytes.Buffer
		for block := range slices.Chunk(raw, 48<<10) {
			w, err := flate.NewWriter(&compressed, 6)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(block); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if got := float64(len(raw)) / float64(compressed.Len()); got < want*0.85 || got > want*1.25 {
			t.Errorf("%s: compressed %.2f : 1, want about %g : 1", kind, got, want)
		}
	}
}

func TestADocumentDependsOnItsNumberAlone(t *testing.T) {
	a, err := New(Mixed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Mixed)
	if err != nil {
		t.Fatal(err)
	}
	first := a.Append(nil, 17, 0)
	b.Append(nil, 3, 0)
	if again := b.Append(nil, 17, 0); !bytes.Equal(first, again) {
		t.Errorf("document 17 differs:\n%s\n%s", first, again)
	}
	if other := b.Append(nil, 17, 1); bytes.Equal(first, other) {
		t.Errorf("revision 1 equals revision 0: %s", first)
	}
}

func TestAnUnknownKindIsRefused(t *testing.T) {
	if _, err := New("poems"); err == nil {
		t.Error("accepted")
	}
}

func BenchmarkAppend(b *testing.B) {
	c, err := New(Mixed)
	if err != nil {
		b.Fatal(err)
	}
	var doc []byte
	for i := 0; b.Loop(); i++ {
		doc = c.Append(doc[:0], i, 0)
		b.SetBytes(int64(len(doc)))
	}
}
