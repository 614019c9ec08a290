package snapshot

import (
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestADescriptionWithoutAChecksumIsCheckedByItsContent: in repositories of 1.x nothing else shows damage.
func TestADescriptionWithoutAChecksumIsCheckedByItsContent(t *testing.T) {
	for _, c := range []struct{ name, text, words string }{
		{"of another snapshot", `{"snapshot":{"name":"other","indices":[]}}`, `describes snapshot "other"`},
		{"of no snapshot", `{}`, "describes no snapshot"},
		{"without indices", `{"snapshot":{"name":"s"}}`, "lists no indices"},
		{"of an unknown state", `{"snapshot":{"name":"s","indices":[],"state":"ODD"}}`, `state "ODD"`},
		{"with an index that is none", `{"snapshot":{"name":"s","indices":[7]}}`, "snapshot-s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			catalog, err := OpenCatalog(t.Context(), memory{"index": []byte(`{"snapshots":["s"]}`), "snapshot-s": []byte(c.text)})
			if err != nil {
				t.Fatal(err)
			}
			s, err := catalog.Snapshot(t.Context(), "s")
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.words) || s != nil {
				t.Errorf("%+v, %v; want %s", s, err, c.words)
			}
		})
	}
}

func TestAFileIsReadWithinItsBounds(t *testing.T) {
	for _, f := range []File{
		{Name: "a", Length: 4, Contents: []byte("abcd")},
		{Name: "b", Length: 4, Blob: "__b"},
	} {
		x := &file{File: f, shard: &Shard{Manifest: "indices/x/0/snap-u.dat"}}
		for _, at := range [][2]int64{{-1, 1}, {0, 5}, {4, 1}, {1, -1}, {1, 1 << 62}} {
			if _, err := x.Stream(t.Context(), at[0], at[1]); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %d bytes from %d on: %v", f.Name, at[1], at[0], err)
			}
		}
		if _, err := x.Stream(t.Context(), 4, 0); err != nil {
			t.Errorf("%s: nothing at its end: %v", f.Name, err)
		}
	}
}

func TestMetadataOfARemoteStoreThatIsGoneIsNamed(t *testing.T) {
	_, err := readSegmentMetadata(t.Context(), memory{}, "x/segments/metadata/m", &shallow{})
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "x/segments/metadata/m") || !strings.Contains(err.Error(), "lock of the snapshot") {
		t.Errorf("%v", err)
	}
}

func TestMetadataOfARemoteStoreOfAnotherFormIsRefused(t *testing.T) {
	tried := 0
	for _, m := range shallowRepositories(t) {
		for _, name := range metadataBlobs(m)[:1] {
			whole := string(m[name])
			at := strings.Index(whole, "segment_md") + len("segment_md")
			for _, c := range []struct {
				name string
				text string
				want error
			}{
				{"version 0", whole[:at] + "\x00\x00\x00\x00" + whole[at+4:], fault.ErrUnsupported},
				{"version 3", whole[:at] + "\x00\x00\x00\x03" + whole[at+4:], fault.ErrUnsupported},
				{"another codec", strings.Replace(whole, "segment_md", "segment_me", 1), fault.ErrUnsupported},
				{"as it was", whole, nil},
			} {
				if _, _, err := parseSegmentMetadata(resealed([]byte(c.text))); !errors.Is(err, c.want) {
					t.Errorf("%s of %s: %v, want %v", c.name, name, err, c.want)
				}
				tried++
			}
		}
	}
	if tried == 0 {
		t.Error("nothing was tried")
	}
}
