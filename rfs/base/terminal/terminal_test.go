package terminal_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/rfsd/rfsd/rfs/base/terminal"
)

func TestWriter(t *testing.T) {
	const dirty = "a\x1b[2J\x07b\u009bc\x9bd\u202ee\r\x7f\u2028f\u2066\x00"
	for size := 1; size < 8; size++ {
		var out bytes.Buffer
		w := terminal.NewWriter(&out)
		for rest := dirty + "é日\tx\n"; rest != ""; {
			n := min(size, len(rest))
			if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		if want := "a [2J b c d e   f  é日\tx\n"; out.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", size, out.String(), want)
		}
		if terminal.Raw(w) != &out || terminal.Raw(&out) != &out {
			t.Error("Raw is another writer")
		}
	}
	if got := terminal.Clean("a\nb\tc\x1b"); got != "a b c " {
		t.Errorf("%q", got)
	}
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x1b[2J\u009b"), 1)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var out bytes.Buffer
		w := terminal.NewWriter(&out)
		cut = max(0, min(cut, len(b)))
		for _, part := range [][]byte{b[:cut], b[cut:]} {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Fatalf("%q holds a control character at %d", out.String(), i)
		}
	})
}
