package export

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestFinish_LooksAtFilesAgainOnlyAfterFurtherWork(t *testing.T) {
	files, dir := &sick{}, t.TempDir()
	d, err := OpenOn(files, dir, "w", None)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	finish(t, d, "")
	files.walk = errors.New("not to be listed")
	finish(t, d, "")
	files.walk = nil
	f := create(t, d, "i", 0, 0)
	send(t, f, pair("i", "1"))
	commit(t, f)
	finish(t, d, "")
	wantManifest(t, dirHome(dir), true, map[string]int64{"i/0-0.ndjson": 1})
}

// TestNote_NamesEachFolderOnce in a directory, in order.
func TestNote_NamesEachFolderOnce(t *testing.T) {
	h := dirHome(t.TempDir())
	x := enter(t, h, "w", None)
	for _, index := range []string{"i_b", "i_a", "i_b"} {
		f := create(t, x, "i", 0, 0)
		send(t, f, pair(index, "1"))
		commit(t, f)
	}
	name := noteName(item{"i", "0-0"})
	n, err := parseNote(name, h.raw(t)[name])
	if err != nil || !slices.Equal(n.Former, []string{"i", "i_a", "i_b"}) {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestDamagedManifestIsRefused(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"not JSON":              {`{`, fault.ErrCorrupt},
		"no format":             {`{"id":"x"}`, fault.ErrCorrupt},
		"no id":                 {`{"rfsd_export":1}`, fault.ErrCorrupt},
		"of a later rfsd":       {`{"rfsd_export":2,"id":"x"}`, fault.ErrUnsupported},
		"a name that leads up":  {`{"rfsd_export":1,"id":"x","files":[{"name":"../a.ndjson"}]}`, fault.ErrCorrupt},
		"an unclean name":       {`{"rfsd_export":1,"id":"x","files":[{"name":"a//b.ndjson"}]}`, fault.ErrCorrupt},
		"no name":               {`{"rfsd_export":1,"id":"x","files":[{}]}`, fault.ErrCorrupt},
		"negative bytes":        {`{"rfsd_export":1,"id":"x","files":[{"name":"a","bytes":-1}]}`, fault.ErrCorrupt},
		"negative documents":    {`{"rfsd_export":1,"id":"x","files":[{"name":"a","documents":-1}]}`, fault.ErrCorrupt},
		"a digest that is none": {`{"rfsd_export":1,"id":"x","files":[{"name":"a","sha256":"` + digest[1:] + `"}]}`, fault.ErrCorrupt},
		"bytes that are text":   {`{"rfsd_export":1,"id":"x","files":[{"name":"a","bytes":"7"}]}`, fault.ErrCorrupt},
		"a file twice":          {`{"rfsd_export":1,"id":"x","files":[{"name":"a"},{"name":"a"}]}`, fault.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseManifest([]byte(c.text)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ManifestName), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, "w", None); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), dir) {
				t.Errorf("opened: %v", err)
			}
		})
	}
	if _, err := ParseManifest([]byte(`{"rfsd_export":1,"id":"x","files":[{"name":"a","sha256":"` + digest + `"},{"name":"b"}]}`)); err != nil {
		t.Error(err)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"rfsd_export":1,"id":"x","complete":true,"files":[{"name":"i/0-0.ndjson","bytes":7,"documents":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		m, err := ParseManifest(b)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) || err == nil && m.ID == "" {
			t.Fatalf("%+v, %v", m, err)
		}
	})
}
