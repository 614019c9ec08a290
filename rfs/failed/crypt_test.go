package failed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age/armor"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/testing/agekey"
)

// keys makes a pair of keys.
func keys(t *testing.T) (*Recipient, *Identities) {
	t.Helper()
	public, secret := agekey.New(t)
	to, err := ParseRecipient(public)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := ReadIdentities(strings.NewReader("# created\n\n" + secret + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return to, ids
}

// sealed returns a file of a writer that was called several times.
func sealed(t *testing.T, to *Recipient, calls, documents int) []byte {
	t.Helper()
	dir := t.TempDir()
	w, err := Open(dir, "w", Form{To: to})
	for i := 0; err == nil && i < calls; i++ {
		var all []doc.Failure
		for j := range documents {
			all = append(all, doc.Failure{Index: "logs", ID: fmt.Sprint(i, "-", j), Reason: "x", Status: 400, Detail: "secret", Source: []byte(`{"a":"` + strings.Repeat("secret", 50) + `"}`)})
		}
		err = errors.Join(w.Record(t.Context(), all), w.Sync(t.Context()))
	}
	if err == nil {
		err = w.Close()
	}
	b, rerr := os.ReadFile(filepath.Join(dir, "w.ndjson"))
	if err = errors.Join(err, rerr); err != nil {
		t.Fatal(err)
	}
	return b
}

// ids returns the documents that can be read of a file, and why no more.
func idsIn(file []byte, with *Identities) (all []string, err error) {
	for l, err := range Lines(NewPlain(bytes.NewReader(file), with), 1<<20) {
		if err = errors.Join(err, l.Err); err != nil {
			return all, err
		}
		all = append(all, l.Failure.ID)
	}
	return all, nil
}

func TestEncryptedFiles(t *testing.T) {
	to, with := keys(t)
	_, other := keys(t)
	file := sealed(t, to, 3, 400)
	if bytes.Contains(file, []byte("secret")) || bytes.Contains(file, []byte(`"logs"`)) || !IsLine(file) {
		t.Fatalf("the file begins with %.200s", file)
	}
	last := bytes.LastIndex(file, []byte(armor.Header))
	flipped := func(at int) []byte {
		b := bytes.Clone(file)
		b[at] = map[bool]byte{true: 'B', false: 'A'}[b[at] == 'A']
		return b
	}
	var endless bytes.Buffer
	text := armor.NewWriter(&endless)
	if _, err := text.Write([]byte("age-encryption.org/v1\n-> X25519 " + strings.Repeat("a", 43) + "\n" + strings.Repeat(strings.Repeat("A", 64)+"\n", 10_000))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		file      []byte
		with      *Identities
		documents int
		err       error
		says      string
	}{
		{name: "the key reads all", file: file, with: with, documents: 1200},
		{name: "without a key", file: file, err: fault.ErrConfig, says: "--failed-documents-identity"},
		{name: "another key", file: file, with: other, err: fault.ErrConfig, says: "another key"},
		{name: "a byte of the first header", file: flipped(len(armor.Header) + 200), with: with, err: fault.ErrCorrupt, says: "from byte 0 on is damaged"},
		{name: "a byte of the last part", file: flipped(last + (len(file)-last)/2), with: with, documents: 1199, err: fault.ErrCorrupt, says: fmt.Sprintf("from byte %d on is damaged", last)},
		{name: "an end that was lost", file: file[:len(file)-200], with: with, documents: 1199, err: fault.ErrCorrupt, says: fmt.Sprintf("truncate -s %d", last)},
		{name: "a last line feed that was lost", file: file[:len(file)-1], with: with, documents: 1199, err: fault.ErrCorrupt, says: fmt.Sprintf("truncate -s %d", last)},
		{name: "only the beginning of a part", file: file[:last+10], with: with, documents: 1199, err: fault.ErrCorrupt, says: fmt.Sprintf("truncate -s %d", last)},
		{name: "lines in clear after it", file: append(bytes.Clone(file), "{}\n"...), with: with, documents: 1200, err: fault.ErrCorrupt, says: "is damaged"},
		{name: "a header without an end", file: endless.Bytes(), with: with, err: fault.ErrCorrupt, says: "header has more than"},
		{name: "a line without an end", file: append([]byte(armor.Header+"\n"), bytes.Repeat([]byte("A"), 1<<20)...), with: with, err: fault.ErrCorrupt, says: "lines has more than"},
		{name: "in clear with a key", file: []byte(`{"index":"a","id":"b"}` + "\n"), with: with, documents: 1},
		{name: "nothing", with: with},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := idsIn(c.file, c.with)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%.300v, want %v with %q", err, c.err, c.says)
			}
			if len(got) > c.documents || err == nil && len(got) < c.documents {
				t.Errorf("%d documents, want %d", len(got), c.documents)
			}
		})
	}
}

// TestAnEncryptedPartThatADeadProcessLeftIsCutOff as an unfinished line is.
func TestAnEncryptedPartThatADeadProcessLeftIsCutOff(t *testing.T) {
	to, with := keys(t)
	file, dir := sealed(t, to, 2, 10), t.TempDir()
	last := bytes.LastIndex(file, []byte(armor.Header))
	for _, end := range []int{len(file), len(file) - 1, len(file) - 100, last + 40, last + 3, last} {
		if err := os.WriteFile(filepath.Join(dir, "w.ndjson"), file[:end], 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Open(dir, "w", Form{To: to})
		if err == nil {
			err = errors.Join(w.Record(t.Context(), []doc.Failure{{Index: "logs", ID: "new"}}), w.Close())
		}
		b, rerr := os.ReadFile(filepath.Join(dir, "w.ndjson"))
		if err = errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		want := 11
		if end == len(file) {
			want = 21
		}
		if got, err := idsIn(b, with); err != nil || len(got) != want || got[want-1] != "new" {
			t.Errorf("cut at %d: %d documents, want %d: %v", end, len(got), want, err)
		}
	}
}

func TestKeysThatAreNone(t *testing.T) {
	for _, text := range []string{"", "age1xyz", "ssh-ed25519 AAAA", "AGE-SECRET-KEY-1XYZ"} {
		if _, err := ParseRecipient(text); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for name, text := range map[string]string{"empty": "", "comments": "# x\n", "a public key": "age1xyz", "no key": "AGE-SECRET-KEY-1XYZ", "long": strings.Repeat("#\n", 1<<20)} {
		if _, err := ReadIdentities(strings.NewReader(text)); !errors.Is(err, fault.ErrConfig) || strings.Contains(err.Error(), "XYZ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestObjectsAreEncrypted(t *testing.T) {
	to, with := keys(t)
	s := &shelved{}
	o, err := NewObjects(s, "move", "w", Form{To: to})
	if err == nil {
		err = errors.Join(o.Record(t.Context(), []doc.Failure{{Index: "logs", ID: "a", Source: []byte(`{}`)}, {Index: "logs", ID: "b"}}), o.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := idsIn(s.body, with); err != nil || len(got) != 2 || !Encrypted(s.body) {
		t.Errorf("%q, %v", got, err)
	}
}

// shelved keeps the last object.
type shelved struct{ body []byte }

func (s *shelved) Put(_ context.Context, _ string, body []byte) error {
	s.body = bytes.Clone(body)
	return nil
}
