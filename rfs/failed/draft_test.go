package failed

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/fault"
)

// failing is a writer that takes some bytes.
type failing struct{ room int }

func (f *failing) Write(b []byte) (int, error) {
	n := min(f.room, len(b))
	if f.room -= n; n < len(b) {
		return n, errFull
	}
	return n, nil
}

// TestDraft_HasTheFormOfItsFile checks what replaces a file, in clear and encrypted.
func TestDraft_HasTheFormOfItsFile(t *testing.T) {
	to, keys := keys(t)
	for name, key := range map[string]*Recipient{"clear": nil, "encrypted": to} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			asked := 0
			d := NewDraft(&out, func() *Recipient { asked++; return key })
			for _, line := range []string{"one\n", "two\n"} {
				if n, err := d.Write([]byte(line)); n != len(line) || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if Encrypted(out.Bytes()) != (key != nil) {
				t.Errorf("%.60q", out.String())
			}
			plain := NewPlain(&out, keys)
			if b, err := io.ReadAll(plain); string(b) != "one\ntwo\n" || err != nil || (plain.Recipient() == nil) != (key == nil) {
				t.Errorf("%q, %v, %v", b, err, plain.Recipient())
			}
		})
	}
	t.Run("nothing is written", func(t *testing.T) {
		var out bytes.Buffer
		d := NewDraft(&out, func() *Recipient { return to })
		if err := d.Close(); err != nil || out.Len() != 0 {
			t.Errorf("%v, %q", err, out.String())
		}
	})
	long := bytes.Repeat([]byte("x"), 300<<10)
	for _, room := range []int{0, 10, 100 << 10} {
		d := NewDraft(&failing{room}, func() *Recipient { return to })
		_, err := d.Write(long)
		if err = errors.Join(err, d.Close()); !errors.Is(err, errFull) {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
}

// TestWriter_EncryptedOnAFullDisk checks that a part that is not complete is cut off, and that nothing is taken afterwards.
func TestWriter_EncryptedOnAFullDisk(t *testing.T) {
	to, keys := keys(t)
	d := newDisk()
	w, err := OpenOn(d, "dir", "w", Form{To: to})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Record(t.Context(), failures(1)), w.Record(t.Context(), nil), w.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	whole := len(d.content)
	d.room = 100
	if err := w.Record(t.Context(), failures(2)); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
	if len(d.content) != whole {
		t.Errorf("%d bytes are there, %d are whole", len(d.content), whole)
	}
	d.room = -1
	if err := errors.Join(w.Record(t.Context(), failures(3))); !errors.Is(err, errFull) {
		t.Errorf("after it: %v", err)
	}
	if b, err := io.ReadAll(NewPlain(bytes.NewReader(d.content), keys)); err != nil || bytes.Count(b, []byte("\n")) != 1 {
		t.Errorf("%q, %v", b, err)
	}
}

// broken is a reader that fails.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// TestKeys_ThatAreNone checks files and texts that hold no keys.
func TestKeys_ThatAreNone(t *testing.T) {
	if _, err := ParseRecipient("age1none"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a public key: %v", err)
	}
	if ids, err := ReadIdentities(broken{}); !errors.Is(err, errBroken) || ids != nil {
		t.Errorf("a file that cannot be read: %v", err)
	}
	for name, text := range map[string]string{
		"empty": "", "comments": "# only\n\n", "a public key": "age1qqq\n", "a secret of another kind": "AGE-SECRET-KEY-1QQQ\n", "too long": strings.Repeat("#", maxIdentities+1),
	} {
		ids, err := ReadIdentities(strings.NewReader(text))
		if !errors.Is(err, fault.ErrConfig) || ids != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "QQQ") {
			t.Errorf("%s: the key is in the error: %v", name, err)
		}
	}
}

// TestReserve_WhileAWriterHasTheFile checks who may replace a file.
func TestReserve_WhileAWriterHasTheFile(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "w")
	if err := w.Record(t.Context(), failures(1)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "w.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // of a test
	if err := Reserve(f); !errors.Is(err, ErrInUse) {
		t.Errorf("while it is written: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Reserve(f); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	second := open(t, dir, "w")
	closed, err := os.Open(filepath.Join(dir, "w.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(closed.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	if err := Reserve(closed); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("a closed file: %v", err)
	}
}

// TestLines_WhatALineNeeds checks which lines are failed documents, and which files hold such.
func TestLines_WhatALineNeeds(t *testing.T) {
	written, err := AppendLine(nil, &doc.Failure{Index: "a", ID: "1", Reason: doc.NoSource}, Full)
	if err != nil || bytes.Contains(written, []byte("source\":")) || bytes.Contains(written, []byte("base64")) {
		t.Errorf("a document without a source: %s, %v", written, err)
	}
	for _, c := range []struct {
		name, text string
		line, file bool
	}{
		{"as it is written", string(written), true, true},
		{"without an index", `{"id":"1"}` + "\n", true, false},
		{"without an id", `{"index":"a"}` + "\n", true, false},
		{"with neither", `{"shard":1}` + "\n", false, false},
		{"text", "attack\n", false, false},
		{"a pair of an import", `{"index":{"_index":"a","_id":"1"}}` + "\n", false, false},
		{"another order", `{"index":"a","shard":0,"id":"1","ordinal":1,"reason":"x","status":1}` + "\n", true, false},
		{"encrypted", "-----BEGIN AGE ENCRYPTED FILE-----\n", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := IsLine([]byte(c.text)); got != c.file {
				t.Errorf("a file of failed documents: %v", got)
			}
			n := 0
			for l, err := range Lines(strings.NewReader(c.text), 1<<20) {
				if n++; err != nil || (l.Err == nil) != c.line || l.Err != nil && !errors.Is(l.Err, fault.ErrCorrupt) {
					t.Errorf("%+v, %v", l, err)
				}
				if string(l.Text) != c.text {
					t.Errorf("%q", l.Text)
				}
			}
			if n != 1 {
				t.Errorf("%d lines", n)
			}
		})
	}
}

// TestWatched_CountsWhatItKnowsWhenItIsFull checks that a class that has a sum of its own keeps it.
func TestWatched_CountsWhatItKnowsWhenItIsFull(t *testing.T) {
	w, _, _, noted := watching()
	all := make([]doc.Failure, maxSums+1)
	for n := range all {
		all[n] = strict(strings.Repeat("x", n+1), 0)
	}
	again := []doc.Failure{strict("x", 1), strict("x", 2)}
	if err := errors.Join(w.Record(t.Context(), all), w.Record(t.Context(), again), w.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if first := (*noted)[len(*noted)-1][0]; first.Index != "x" || first.Count != 3 {
		t.Errorf("%.60v", first)
	}
}
