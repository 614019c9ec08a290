package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func hashedShard(t *testing.T, m memory) (Locator, string) {
	t.Helper()
	c, err := OpenCatalog(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(t.Context(), "snap-2")
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Index(t.Context(), "hp")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := x.Locator.ShardFolder(1)
	if err != nil {
		t.Fatal(err)
	}
	return x.Locator, folder
}

// move renames all blobs below a folder.
func move(m memory, from, to string) memory {
	c := memory{}
	for name, b := range m {
		c[strings.Replace(name, from+"/", to+"/", 1)] = b
	}
	return c
}

func TestShardsAreFoundWhereOpenSearchRecordedThem(t *testing.T) {
	m := realRepositories(t)["os2.19.4-hashed-path"]
	loc, folder := hashedShard(t, m)
	want, err := OpenShard(t.Context(), m, loc, 1)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := "prefix/" + folder
	moved := move(m, folder, elsewhere)
	if _, err := OpenShard(t.Context(), moved, loc, 1); !errors.Is(err, ErrShardMissing) {
		t.Errorf("moved without a record: %v", err)
	}
	blob := moved.only(t, "snapshot_shard_paths/snapshot_path_"+loc.IndexID+".", "")
	moved[blob] = bytes.ReplaceAll(moved[blob], []byte(folder), []byte(elsewhere))
	got, err := OpenShard(t.Context(), moved, loc, 1)
	if err != nil || !reflect.DeepEqual(got.Files, want.Files) || got.Path != elsewhere {
		t.Errorf("at the recorded place: %v", err)
	}
	foreign := maps.Clone(moved)
	foreign[blob] = bytes.ReplaceAll(moved[blob], []byte(loc.IndexID), []byte("another"))
	if _, err := OpenShard(t.Context(), foreign, loc, 1); !errors.Is(err, ErrShardMissing) {
		t.Errorf("by the record of another index: %v", err)
	}
	loc.PathType = 7 // of a version to come
	if got, err := OpenShard(t.Context(), moved, loc, 1); err != nil || !reflect.DeepEqual(got.Files, want.Files) {
		t.Errorf("by a type that is unknown: %v", err)
	}
	if _, err := OpenShard(t.Context(), moved.without(blob), loc, 1); !errors.Is(err, fault.ErrUnsupported) {
		t.Errorf("by a type that is unknown, without a record: %v", err)
	}
	loc.PathType = pathHashedPrefix
	outside := maps.Clone(moved)
	outside[blob] = bytes.ReplaceAll(moved[blob], []byte(elsewhere), []byte("elsewhere/base/"+folder))
	if _, err := OpenShard(t.Context(), outside, loc, 1); !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), "elsewhere/base/") {
		t.Errorf("outside of the repository: %v", err)
	}
	outside[blob] = bytes.ReplaceAll(moved[blob], []byte(elsewhere), []byte("../../etc"))
	if _, err := OpenShard(t.Context(), outside, loc, 1); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a path that leaves the repository: %v", err)
	}
}

func TestTheListOfAllSnapshotsStandsInForALostManifest(t *testing.T) {
	for name, m := range realRepositories(t) {
		t.Run(name, func(t *testing.T) {
			c, err := OpenCatalog(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Snapshot(t.Context(), c.Snapshots[len(c.Snapshots)-1].Name)
			if err != nil {
				t.Fatal(err)
			}
			x, err := s.Index(t.Context(), s.Indices[0].Name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := OpenShard(t.Context(), m, x.Locator, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, err := OpenShard(t.Context(), m.without(want.Manifest), x.Locator, 0)
			if x.Locator.Legacy {
				if !errors.Is(err, ErrShardMissing) || !strings.Contains(err.Error(), want.Manifest) {
					t.Errorf("1.x has no such list: %v", err)
				}
				return
			}
			if err != nil || got.TotalBytes != want.TotalBytes || len(got.Files) != len(want.Files) {
				t.Errorf("%v", err)
			}
			gone := m.without(want.Manifest, got.Manifest)
			if _, err := OpenShard(t.Context(), gone, x.Locator, 0); !errors.Is(err, ErrShardMissing) || !strings.Contains(err.Error(), want.Manifest) {
				t.Errorf("both gone: %v", err)
			}
		})
	}
}

// firstIndex is the first index of the first snapshot.
func firstIndex(t *testing.T, m memory) *Index {
	t.Helper()
	c, err := OpenCatalog(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(t.Context(), c.Snapshots[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Index(t.Context(), s.Indices[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestTheLocatorAloneFindsAShardWithOneRequest(t *testing.T) {
	for name, m := range realRepositories(t) {
		x := firstIndex(t, m)
		want, err := OpenShard(t.Context(), m, x.Locator, 0)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := json.Marshal(x.Locator)
		if err != nil {
			t.Fatal(err)
		}
		var loc Locator
		if err := json.Unmarshal(stored, &loc); err != nil {
			t.Fatal(err)
		}
		got, err := OpenShard(t.Context(), memory{want.Manifest: m[want.Manifest]}, loc, 0)
		if err != nil || !reflect.DeepEqual(got.Files, want.Files) {
			t.Errorf("%s: %v", name, err)
		}
		meta, err := loc.Index(t.Context(), memory{loc.MetaBlob: m[loc.MetaBlob]})
		if err != nil || !reflect.DeepEqual(meta, x) {
			t.Errorf("%s: metadata of the index alone: %v", name, err)
		}
	}
}

// TestASnapshotThatWasReplacedIsNotTakenForThePlannedOne gives blobs the same content in other bytes, as a snapshot has that was made again
// under the same name.
func TestASnapshotThatWasReplacedIsNotTakenForThePlannedOne(t *testing.T) {
	for name, m := range realRepositories(t) {
		x := firstIndex(t, m)
		shard, err := OpenShard(t.Context(), m, x.Locator, 0)
		if err != nil || len(shard.Sum) != 22 || len(x.Locator.MetaSum) != 22 {
			t.Fatalf("%s: sums %q and %q, %v", name, shard.Sum, x.Locator.MetaSum, err)
		}
		other := memory{}
		for _, blob := range []string{shard.Manifest, x.Locator.MetaBlob} {
			codec := ""
			if !x.Locator.Legacy {
				codec = codecOf(m[blob])
			}
			payload, _, err := readJSON(t.Context(), m, blob, codec)
			if err != nil {
				t.Fatal(err)
			}
			other[blob] = append(payload, '\n')
			if codec != "" {
				other[blob] = frame(codec, other[blob])
			}
		}
		loc := x.Locator
		if _, err := OpenShard(t.Context(), other, loc, 0); err != nil {
			t.Errorf("%s: without a sum any manifest will do: %v", name, err)
		}
		loc.ShardSums = []string{shard.Sum}
		if _, err := OpenShard(t.Context(), m, loc, 0); err != nil {
			t.Errorf("%s: the planned manifest: %v", name, err)
		}
		if _, err := OpenShard(t.Context(), other, loc, 0); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), shard.Manifest) || !strings.Contains(err.Error(), "replaced") {
			t.Errorf("%s: another manifest: %v", name, err)
		}
		if _, err := loc.Index(t.Context(), other); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), loc.MetaBlob) || !strings.Contains(err.Error(), "replaced") {
			t.Errorf("%s: another index metadata: %v", name, err)
		}
		loc.MetaSum, loc.ShardSums = "", []string{""}
		if _, err := loc.Index(t.Context(), other); err != nil {
			t.Errorf("%s: without a sum any metadata will do: %v", name, err)
		}
	}
}
