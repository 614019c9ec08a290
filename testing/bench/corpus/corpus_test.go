package corpus

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestDocumentsAreJSONOfTheStatedSize(t *testing.T) {
	for kind, want := range map[Kind]int{Mixed: 900, Logs: 324, Tiny: 39, Wide: 4050, Long: 1_000_000} {
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
