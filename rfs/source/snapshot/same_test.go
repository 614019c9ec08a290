package snapshot_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func TestShard_SameFiles(t *testing.T) {
	of := func(change func(*snapshot.Shard)) *snapshot.Shard {
		s := &snapshot.Shard{Files: []snapshot.File{{Name: "_0.cfs", Blob: "__a", Length: 7, Checksum: "x1"}, {Name: "segments_2", Blob: "v__1", Length: 2, Checksum: "x2", Contents: []byte{1, 2}}}}
		change(s)
		return s
	}
	for _, c := range []struct {
		name   string
		change func(*snapshot.Shard)
		want   bool
	}{
		{"the same", func(*snapshot.Shard) {}, true},
		{"other blobs", func(s *snapshot.Shard) { s.Files[0].Blob = "__b" }, true},
		{"another order", func(s *snapshot.Shard) { s.Files[0], s.Files[1] = s.Files[1], s.Files[0] }, true},
		{"another checksum", func(s *snapshot.Shard) { s.Files[0].Checksum = "x3" }, false},
		{"no checksum", func(s *snapshot.Shard) { s.Files[0].Checksum = "" }, false},
		{"another length", func(s *snapshot.Shard) { s.Files[0].Length = 8 }, false},
		{"other contents", func(s *snapshot.Shard) { s.Files[1].Contents = []byte{1, 3} }, false},
		{"another file", func(s *snapshot.Shard) { s.Files[0].Name = "_1.cfs" }, false},
		{"one file more", func(s *snapshot.Shard) { s.Files = append(s.Files, snapshot.File{Name: "_1.cfs", Checksum: "x"}) }, false},
		{"one file twice", func(s *snapshot.Shard) { s.Files[1] = s.Files[0] }, false},
		{"no files", func(s *snapshot.Shard) { s.Files = nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, other := of(func(*snapshot.Shard) {}), of(c.change)
			if base.SameFiles(other) != c.want || other.SameFiles(base) != c.want {
				t.Errorf("%v and %v, want %v", base.SameFiles(other), other.SameFiles(base), c.want)
			}
		})
	}
}
