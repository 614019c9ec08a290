package lucene

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
	"github.com/rfsd/rfsd/rfs/source/lucene/postings"
)

// words is what Write.java indexes of a document: each term with the positions between it and the one before.
func words(n int) []string {
	var out []string
	for range n%3 + 1 {
		out = append(out, "1 common")
	}
	if n%2 == 0 {
		out = append(out, "1 even")
	}
	out = append(out, fmt.Sprintf("1 w%d", n%97), fmt.Sprintf("%d u%d", 1+n%5, n*7919%9001))
	if n%11 == 0 {
		out = append(out, "101 second", "1 Größe", "0 size")
	}
	if n%1500 == 7 {
		for range 300 {
			out = append(out, "1 long")
		}
	}
	if n%3000 == 8 {
		out = append(out, "100000 far")
	}
	return out
}

// textFormats are the snapshots of testdata/text, by the format of their postings.
var textFormats = map[string]string{
	"4.2.1": "Lucene41", "4.4.0": "Lucene41", "4.10.4": "Lucene41", "5.5.4": "Lucene50", "8.5.0": "Lucene84", "8.7.0": "Lucene84", "9.0.0": "Lucene90", "9.11.1": "Lucene99",
	"9.12.3": "Lucene912", "10.1.0": "Lucene101", "10.3.1": "Lucene103", "10.5.1": "Lucene104",
}

// textValues are the values of the only segment of a directory.
func textValues(t testing.TB, dir Directory) *Values {
	t.Helper()
	v, err := tryTextValues(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func tryTextValues(t testing.TB, dir Directory) (*Values, error) {
	t.Helper()
	c, err := Open(t.Context(), dir, Options{Values: true})
	if err != nil {
		return nil, err
	}
	s := c.Segments[0]
	return &Values{storedDoc: storedDoc{seg: s, infos: fieldsOf(t, s)}, opened: map[string]*Column{}}, nil
}

// TestTextIsWhatWasIndexed reads the terms of every document of each generation, whole and in parts, forwards and from the middle.
func TestTextIsWhatWasIndexed(t *testing.T) {
	indexed := make([]string, 9001) // for each document a line per term: position, term
	for n := range indexed {
		position := -1
		for _, w := range words(n) {
			var step int
			var term string
			fmt.Sscan(w, &step, &term)
			position += step
			indexed[n] += fmt.Sprintf("%d %s\n", position, term)
		}
	}
	for version, format := range textFormats {
		t.Run(version, func(t *testing.T) {
			v := textValues(t, zipDir(t, filepath.Join("testdata", "text", version+".zip")))
			for _, c := range []struct {
				name, field string
				fields      int // that share what is held
				every, rest int // the documents that have the field
				from        int32
			}{
				{"positions", "body", 1, 1, 0, 0},
				{"positions, in windows", "body", 1000, 1, 0, 0},
				{"positions, from the middle", "body", 1, 1, 0, 4600},
				{"offsets", "offsets", 1, 4, 0, 0},
				{"payloads", "payloads", 1, 8, 1, 0},
				{"payloads, from the middle", "payloads", 1, 8, 1, 8000},
			} {
				t.Run(c.name, func(t *testing.T) {
					if got := v.infos.byName[c.field].attrs[attrPostings]; got != format {
						t.Fatalf("the format is %s, want %s", got, format)
					}
					text, err := v.Text(t.Context(), c.field, c.fields)
					if err != nil {
						t.Fatal(err)
					}
					for n := c.from; n < 9001; n++ {
						tokens, err := text.Tokens(t.Context(), n)
						if err != nil {
							t.Fatalf("document %d: %v", n, err)
						}
						want := ""
						if int(n)%c.every == c.rest {
							want = indexed[n]
						}
						var got strings.Builder
						for _, x := range tokens {
							fmt.Fprintf(&got, "%d %s\n", x.Position, x.Term)
						}
						if got.String() != want {
							t.Fatalf("document %d has %.300q, want %.300q", n, got.String(), want)
						}
					}
				})
			}
			if text, err := v.Text(t.Context(), "none", 1); text != nil || err != nil {
				t.Errorf("a field that is missing: %v, %v", text, err)
			}
		})
	}
}

// TestDamagedTextIsNeverAnotherText: whatever byte of the files flips, the terms are the same, or the error names file and offset.
func TestDamagedTextIsNeverAnotherText(t *testing.T) {
	for _, version := range []string{"4.10.4", "8.7.0", "10.5.1"} {
		t.Run(version, func(t *testing.T) {
			dir := zipDir(t, filepath.Join("testdata", "text", version+".zip"))
			damaged := map[string]bool{}
			for _, name := range dir.List() {
				whole := dir[name]
				for part := range 24 {
					bad := slices.Clone(whole)
					bad[len(whole)*(2*part+1)/48] ^= 0x10
					dir[name] = bad
					v, err := tryTextValues(t, dir)
					if err != nil {
						continue // before any term is read
					}
					var text *Text
					if text, err = v.Text(t.Context(), "body", 1); err == nil && text != nil {
						var tokens []postings.Token
						if tokens, err = text.Tokens(t.Context(), 11); err == nil && len(tokens) != len(words(11)) {
							t.Errorf("%s: %d terms", name, len(tokens))
						}
					}
					if d, ok := errors.AsType[*fault.Damage](err); ok && d.Blob != "" && d.Offset >= 0 {
						damaged[filepath.Ext(d.File)] = true
					} else if err != nil && !errors.Is(err, fault.ErrUnsupported) {
						t.Errorf("%s: %v", name, err)
					}
				}
				dir[name] = whole
			}
			for _, ext := range []string{".tim", ".doc", ".pos"} {
				if !damaged[ext] {
					t.Errorf("no damage was found in a %s file", ext)
				}
			}
		})
	}
}

// TestADocumentWithMoreTermsThanIsHeld: it is too long, those before and behind it are read.
func TestADocumentWithMoreTermsThanIsHeld(t *testing.T) {
	v := textValues(t, zipDir(t, filepath.Join("testdata", "text", "10.5.1.zip")))
	if _, err := v.Text(t.Context(), "body", 1); err != nil {
		t.Fatal(err)
	}
	terms := v.dictionaries["Lucene104_0"].NewText(v.infos.byName["body"].number, 9001, 4<<10)
	text := &Text{"body", terms}
	for n, long := range map[int32]bool{6: false, 7: true, 8: false} {
		tokens, err := text.Tokens(t.Context(), n)
		if errors.Is(err, columns.ErrLong) != long || err == nil && len(tokens) != len(words(int(n))) {
			t.Errorf("document %d: %d terms, %v", n, len(tokens), err)
		}
	}
}

// FuzzText feeds any bytes to the readers of the dictionary, of documents and of positions.
func FuzzText(f *testing.F) {
	for version, format := range textFormats {
		z := zipDir(f, filepath.Join("testdata", "text", version+".zip"))
		v := textValues(f, z)
		var files [5][]byte
		for i, ext := range []string{".tim", ".doc", ".pos", ".tmd", ".tip"} {
			if suffix := "_" + format + "_0" + ext; v.has(suffix) {
				s, err := v.seg.files.core(suffix)
				if err != nil {
					f.Fatal(err)
				}
				if files[i], err = s.readAt(f.Context(), 0, s.size); err != nil {
					f.Fatal(err)
				}
			}
		}
		f.Add(format, files[0], files[1], files[2], files[3], files[4])
	}
	f.Fuzz(func(t *testing.T, format string, tim, doc, pos, tmd, tip []byte) {
		wellBehaved(t, len(tim)+len(doc)+len(pos)+len(tmd)+len(tip), func() error {
			file := func(name string, b []byte) postings.Data {
				if len(b) == 0 {
					return absentFile{name}
				}
				return postingsFile{&source{name: name, file: memFile{name, b}, size: int64(len(b))}}
			}
			d, err := postings.Open(t.Context(), format, "", postings.Files{Terms: file("tim", tim), Docs: file("doc", doc), Positions: file("pos", pos),
				Meta: file("tmd", tmd), Index: file("tip", tip)}, func(int32) (postings.Options, bool) {
				return postings.Options{Positions: true, Frequencies: true}, true
			})
			if err != nil {
				return err
			}
			for number := range int32(3) {
				if text := d.NewText(number, 9001, 0); text != nil {
					if _, err := text.Tokens(t.Context(), 7); err != nil && !errors.Is(err, postings.ErrLong) {
						return err
					}
				}
			}
			return nil
		})
	})
}
