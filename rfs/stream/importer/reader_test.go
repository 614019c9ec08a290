package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// blob is a source of one file.
type blob []byte

func (b blob) Open(_ context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if n < 0 {
		n = int64(len(b)) - off
	}
	if off < 0 || off+n > int64(len(b)) {
		return nil, fault.Corrupt(name, "", off, "shorter")
	}
	return io.NopCloser(bytes.NewReader(b[off : off+n])), nil
}

// account is a text for each document of a window.
func account(t testing.TB, b blob, from, to int64, packed compression) []string {
	t.Helper()
	size := int64(len(b))
	w, err := openWindow(t.Context(), b, Task{File: "f", Size: size, From: from, To: to, Compression: packed}, 0, maxLine, room{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	var all []string
	for {
		p, err := w.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d %s/%s?%s %q %s %s", p.at, p.action.Index, p.action.ID, p.action.Routing, p.source, p.reason, p.detail))
	}
}

// linesFor are the lines that random files are made of: good ones, traps and rubbish.
var linesFor = []string{
	`{"index":{"_index":"i","_id":"1"}}`, `{"index":{"_index":"i","_id":"2","routing":"r"}}`, `{"a":1}`, `{"index":{"_index":"trap","_id":"3"}}`,
	`{ "create" : { "_index" : "i", "_id" : 4 } }`, ``, "\r", `{"delete":{"_index":"i","_id":"5"}}`, `{"index":{}}`, `rubbish`, `{"a":"` + strings.Repeat("x", 300) + `"}`,
	`{"index":{"_index":"i","_id":"` + strings.Repeat("y", doc.MaxAction) + `"}}`, `{"index":{"_index":"i","_id":"` + strings.Repeat("z", doc.MaxAction-34) + `"}}`,
	`{"long":"` + strings.Repeat("l", lookBack+70000) + `"}`,
}

func TestWindowsGiveTogetherWhatTheWholeFileGives(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	for round := range 60 {
		var b bytes.Buffer
		long := rng.IntN(4) == 0 // few files hold long lines: each costs a quarter of a megabyte
		for range rng.IntN(400) {
			n := len(linesFor) - 3
			if long && rng.IntN(30) == 0 {
				n = len(linesFor)
			}
			if rng.IntN(3) == 0 {
				n = 5 // mostly lines that look like actions
			}
			b.WriteString(linesFor[rng.IntN(n)])
			b.WriteString([]string{"\n", "\n", "\n", "\r\n"}[rng.IntN(4)])
		}
		if rng.IntN(2) == 0 {
			b.WriteString(linesFor[rng.IntN(5)])
		}
		file := blob(b.Bytes())
		whole := account(t, file, 0, int64(len(file)), plain)
		var parts []string
		for at := int64(0); at < int64(len(file)); {
			to := min(at+1+rng.Int64N(max(int64(len(file))/8, 2)), int64(len(file)))
			parts = append(parts, account(t, file, at, to, plain)...)
			at = to
		}
		compareTexts(t, fmt.Sprintf("round %d", round), whole, parts)
	}
}

func compareTexts(t *testing.T, what string, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		w, g := "nothing", "nothing"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Fatalf("%s, document %d of %d and %d: got %.200s, want %.200s", what, i, len(got), len(want), g, w)
		}
	}
}

// TestAFileThatNeverTellsIsReadFromItsBeginning: nothing but lines that look like actions.
func TestAFileThatNeverTellsIsReadFromItsBeginning(t *testing.T) {
	file := blob(strings.Repeat(linesFor[0]+"\n", 3*lookBack/len(linesFor[0])))
	whole := account(t, file, 0, int64(len(file)), plain)
	var parts []string
	for at := int64(0); at < int64(len(file)); at += 100_001 {
		parts = append(parts, account(t, file, at, min(at+100_001, int64(len(file))), plain)...)
	}
	compareTexts(t, "traps only", whole, parts)
	if at, _, err := syncPoint(t.Context(), file, "f", int64(len(file))-5); err != nil || at != 0 {
		t.Errorf("starts at %d: %v", at, err)
	}
}

// TestAFileOfFailedDocumentsNamesItsCommand: each of its lines fails with the name of the command that sends them.
func TestAFileOfFailedDocumentsNamesItsCommand(t *testing.T) {
	var file blob
	for n := range int64(3) {
		file = failed.AppendLine(file, &doc.Failure{Index: "logs", ID: "a", Ordinal: n, Reason: "mapper_parsing_exception", Status: 400, Source: []byte(`{"a":1}`)}, failed.Full)
	}
	p := &pairs{lines: newLines(bytes.NewReader(file), 0, 1<<20), to: noEnd}
	for range 3 {
		if x, err := p.next(); err != nil || x.reason != BadLine || !strings.Contains(x.detail, "which rfsd redrive sends") {
			t.Errorf("%+v, %v", x, err)
		}
	}
}

func TestAWindowReadsLittleMoreThanItself(t *testing.T) {
	file := blob(strings.Repeat(linesFor[0]+"\n"+linesFor[2]+"\n", 1<<16))
	for _, from := range []int64{1, 34, 1 << 20, 1<<20 + 1} {
		at, _, err := syncPoint(t.Context(), file, "f", from)
		if err != nil || from-at > 100 {
			t.Errorf("for %d it starts at %d: %v", from, at, err)
		}
	}
}

func TestALineBeyondTheLimitIsSkippedWithoutKeepingIt(t *testing.T) {
	const limit = 1000
	text := "first\n" + strings.Repeat("x", 3_000_000) + "\n" + strings.Repeat("y", limit+1) + "\nlast"
	l := newLines(strings.NewReader(text), 10, limit)
	for _, want := range []struct {
		line string
		at   int64
		err  error
	}{
		{"first", 10, nil}, {strings.Repeat("x", shown), 16, errLong}, {strings.Repeat("y", shown), 3_000_017, errLong}, {"last", 3_001_019, nil}, {"", 3_001_023, io.EOF},
	} {
		line, at, err := l.next()
		if string(line) != want.line || at != want.at || !errors.Is(err, want.err) {
			t.Errorf("got %.20q at %d, %v; want %.20q at %d, %v", line, at, err, want.line, want.at, want.err)
		}
	}
	if len(l.buf) > lineBuffer {
		t.Errorf("the buffer grew to %d bytes", len(l.buf))
	}
}

func TestActionLinesOfAllFormsMeanTheSame(t *testing.T) {
	for _, c := range []struct {
		line                    string
		ok                      bool
		index, id, routing, typ string
		fault                   string
	}{
		{line: `{"index":{"_index":"i","_id":"1","routing":"r"}}`, ok: true, index: "i", id: "1", routing: "r"},
		{line: `{"index":{"_index":"i","_type":"t","_id":"ä"}}`, ok: true, index: "i", id: "ä", typ: "t"},
		{line: ` { "create" : {"_id":7.50, "_index":"i"} } `, ok: true, index: "i", id: "7.50"},
		{line: `{"index":{"_index":"i","_id":"a\"\u0041"}}`, ok: true, index: "i", id: `a"A`},
		{line: `{"index":{"_index":"i","_id":null}}`, ok: true, index: "i"},
		{line: `{"index":{"_index":"i","_id":""}}`, ok: true, index: "i", fault: "the _id is empty"},
		{line: `{"index":{"_id":"1"}}`, ok: true, id: "1", fault: "the action names no index"},
		{line: `{"index":{"_index":"i","_id":"1","pipeline":"p"}}`, ok: true, index: "i", id: "1", fault: `the action has "pipeline", which is not carried over`},
		{line: `{"index":{"_index":5,"_id":"1"}}`, ok: true, id: "1", fault: "_index of the action is not a string"},
		{line: `{"index":{"_index":"i","_id":"1"},"more":1}`},
		{line: `{"index":7}`},
		{line: `{"index":null}`},
		{line: `{"update":{"_index":"i","_id":"1"}}`},
		{line: `{"index":{"_index":"i","_id":"1"}`},
		{line: `[]`},
	} {
		var a doc.Action
		ok := a.ParseIndexing([]byte(c.line))
		if ok != c.ok || ok && (string(a.Index) != c.index || string(a.ID) != c.id || string(a.Routing) != c.routing || string(a.Type) != c.typ || a.Fault != c.fault) {
			t.Errorf("%s: %v, index %s, id %s, routing %s, type %s, fault %s", c.line, ok, a.Index, a.ID, a.Routing, a.Type, a.Fault)
		}
	}
}

func FuzzWindowsEqualTheWholeFile(f *testing.F) {
	f.Add([]byte(linesFor[0]+"\n"+linesFor[2]+"\n"+linesFor[3]+"\n"+linesFor[3]+"\r\n\n"), uint16(40))
	f.Add([]byte(linesFor[4]+"\n"+linesFor[7]+"\n"+linesFor[8]+"\n"), uint16(7))
	f.Add([]byte(`{"index":{"_index":"products-v7","_id":"QXg\u0000","routing":"7"}}`+"\n"+`/*c*/{"name":"Tee"} // x`+"\n"), uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		defer fuzzing.Bounded(t, len(b))()
		size := int64(len(b))
		at := int64(cut) % (size + 1)
		whole := account(t, b, 0, size, plain)
		parts := append(account(t, b, 0, at, plain), account(t, b, at, size, plain)...)
		compareTexts(t, "cut", whole, parts)
	})
}

func FuzzCompressedFile(f *testing.F) {
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"), true)
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00\x99\xe9\xd8\x51"), false)
	near, _ := emptyFrame(commonBack)
	far, _ := emptyFrame(2 * commonBack)
	beyond, _ := emptyFrame(2 * MaxBack)
	f.Add(slices.Concat(near, far), false)
	f.Add(slices.Concat(near, far, beyond), false)
	f.Fuzz(func(t *testing.T, b []byte, gz bool) {
		defer fuzzing.Bounded(t, len(b))()
		packed := zstandard
		if gz {
			packed = gzipped
		}
		if back := announced(b); back < commonBack || back > MaxBack {
			t.Errorf("the first frame announces %d bytes", back)
		}
		// Frames that look back further take from the memory that all windows share, which Bounded does not know.
		size := int64(len(b))
		w, err := openWindow(t.Context(), blob(b), Task{File: "f", Size: size, To: size, Compression: packed}, 0, maxLine, room{}, commonBack)
		if err == nil {
			defer w.close()
		}
		for n := 0; err == nil && n < 10000; n++ {
			_, err = w.next()
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fault.ErrCorrupt) && (gz || !errors.Is(err, errFurther)) {
			t.Errorf("neither documents nor damage: %v", err)
		}
	})
}

func BenchmarkReadWindow(b *testing.B) {
	source := `{"text":"` + strings.Repeat("abcdefghij", 100) + `"}`
	file := blob(strings.Repeat(linesFor[1]+"\n"+source+"\n", 20000))
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		w, err := openWindow(b.Context(), file, Task{File: "f", Size: int64(len(file)), To: int64(len(file)), Compression: plain}, 0, maxLine, room{}, 0)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for {
			p, err := w.next()
			if err != nil {
				break
			}
			if p.reason == "" {
				n++
			}
		}
		if n != 20000 {
			b.Fatalf("%d documents", n)
		}
		w.close()
	}
}
