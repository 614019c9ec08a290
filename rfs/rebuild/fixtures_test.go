package rebuild_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/rfs/rebuild"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/snapshot"
	"github.com/rfsd/rfsd/rfs/worker"
	"github.com/rfsd/rfsd/testing/truth"
)

// fixtures is where `make fixtures` puts the snapshots of real clusters.
const fixtures = "../../testing/fixtures"

// TestFixtures rebuilds every document of snapshots of real clusters and compares it with what the cluster answered,
// byte for byte. What is refused is refused by the name of a field that is not understood, and counted.
func TestFixtures(t *testing.T) {
	for _, c := range []struct {
		name    string
		dir     string
		equal   int
		refused int // values of type flattened
	}{
		{"8.19.21-synthetic", fixtures, 220, 0},
		{"8.19.21-rebuild", "testdata", 147, 0},
		{"9.5.3-rebuild", "testdata", 147, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := truth.Load(false, filepath.Join(c.dir, c.name+".ndjson.gz"))
			if err != nil {
				t.Fatal(err)
			}
			equal, refused := 0, 0
			for key, got := range rebuilt(t, filepath.Join(c.dir, c.name)) {
				switch {
				case string(got) == string(want[key]):
					equal++
				case strings.HasPrefix(string(got), "the source cannot be rebuilt: ") && strings.Contains(string(got), "flattened"):
					refused++
				default:
					t.Errorf("%v:\n got %s\nwant %s", key, got, want[key])
				}
			}
			if equal != c.equal || refused != c.refused {
				t.Errorf("%d documents are equal, %d refused; want %d and %d", equal, refused, c.equal, c.refused)
			}
		})
	}
}

// rebuilt rebuilds the sources of all indices that do not store them.
func rebuilt(t *testing.T, dir string) truth.Docs {
	t.Helper()
	ctx := t.Context()
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := worker.NewPlan(ctx, r, worker.Request{SnapshotName: "snap1", MultiType: worker.SplitTypes, EmitType: worker.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	docs := truth.Docs{}
	for _, x := range plan.Indices {
		if x.Entry.Reduced == "" {
			continue
		}
		for n := range x.Entry.Shards {
			readShard(ctx, t, r, x, n, docs)
		}
	}
	return docs
}

func readShard(ctx context.Context, t *testing.T, r *repo.Dir, x worker.IndexPlan, n int, docs truth.Docs) {
	t.Helper()
	shard, err := snapshotShard(ctx, r, x, n)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := lucene.Open(ctx, shard, lucene.Options{Values: true})
	if err != nil {
		t.Fatal(err)
	}
	reader := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal, Values: true})
	defer reader.Close()
	b, err := rebuild.New(x.Source.Mappings[0].Body, x.Entry.Locator.Created, doc.AppendFormat)
	if err != nil {
		t.Fatal(err)
	}
	decoder := doc.NewDecoder(x.Name, n)
	for {
		rec, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		source, err := b.Append(ctx, nil, rec.Values)
		var unknown *rebuild.Unknown
		if errors.As(err, &unknown) {
			source = []byte(unknown.Error())
		} else if err != nil {
			t.Fatal(err)
		}
		rec.Source, rec.HasSource, rec.HasRecovery = []byte("{}"), true, false
		d, failure := decoder.Decode(rec)
		if failure != nil {
			t.Fatal(failure.Detail)
		}
		docs[truth.Key{Index: x.Name, ID: string(d.ID), Routing: string(d.Routing)}] = source
	}
}

func snapshotShard(ctx context.Context, r *repo.Dir, x worker.IndexPlan, n int) (lucene.Directory, error) {
	shard, err := snapshot.OpenShard(ctx, r, x.Entry.Locator, n)
	if err != nil {
		return nil, err
	}
	return shard.Directory(), nil
}
