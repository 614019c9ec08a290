package snapshot

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/repo"
)

var update = flag.Bool("update", false, "write the golden listings of testdata anew")

// listing describes a whole repository as text, by way of every exported reader, and
// reads every byte of every file.
func listing(t testing.TB, r Repository) string {
	t.Helper()
	var out strings.Builder
	c, err := OpenCatalog(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "catalog %d %v\n", c.Generation, c.Warnings)
	for _, ref := range c.Snapshots {
		s, err := c.Snapshot(t.Context(), ref.Name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "snapshot %s %s %s %s shards=%d failures=%d streams=%v global=%v\n", s.Name, s.UUID, s.State, s.Version,
			s.TotalShards, len(s.Failures), s.DataStreams, s.IncludeGlobalState)
		g, err := s.Global(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "global %v\n", slices.Sorted(maps.Keys(g)))
		for _, ref := range s.Indices {
			x, err := s.Index(t.Context(), ref.Name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "index %s %s %s shards=%d settings=%d aliases=%s\n", x.Name, x.ID, x.State, x.NumShards, len(x.Settings), x.Aliases)
			for _, m := range x.Mappings {
				fmt.Fprintf(&out, "mapping %s %08x\n", m.Type, crc32.ChecksumIEEE(m.Body))
			}
			for n := range x.NumShards {
				if s.State == Failed || slices.ContainsFunc(s.Failures, func(f ShardFailure) bool { return f.Index == x.Name && f.Shard == n }) {
					if _, err := OpenShard(t.Context(), r, x.Locator, n); !errors.Is(err, ErrShardMissing) {
						t.Errorf("shard %d of %s failed, but: %v", n, x.Name, err)
					}
					continue
				}
				shardListing(t, &out, r, x.Locator, n)
			}
		}
	}
	return out.String()
}

func shardListing(t testing.TB, out *strings.Builder, r Repository, loc Locator, n int) {
	t.Helper()
	s, err := OpenShard(t.Context(), r, loc, n)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "shard %d %s bytes=%d\n", n, s.Manifest, s.TotalBytes)
	for _, f := range s.Files {
		crc, err := crcOf(t.Context(), s, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := strconv.ParseUint(f.Checksum, 36, 32); err == nil && uint32(want) != crc {
			t.Errorf("%s: file %s has the checksum %08x, the manifest states %08x", s.Manifest, f.Name, crc, want)
		}
		fmt.Fprintf(out, "file %s %s %d parts=%d\n", f.Name, f.Blob, f.Length, f.Parts())
	}
}

// crcOf reads a file whole, checks its footer, and gives its checksum.
func crcOf(ctx context.Context, s *Shard, name string) (uint32, error) {
	f, err := s.Directory().Open(name)
	if err != nil {
		return 0, err
	}
	rc, err := f.Stream(ctx, 0, f.Size())
	if err != nil {
		return 0, err
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		return 0, err
	}
	if int64(len(b)) != f.Size() || len(b) < 16 {
		return 0, fmt.Errorf("%s has %d bytes, %d were read", name, f.Size(), len(b))
	}
	crc := crc32.ChecksumIEEE(b[:len(b)-8])
	if stored := binary.BigEndian.Uint64(b[len(b)-8:]); stored != uint64(crc) {
		return 0, fmt.Errorf("%s: footer %08x, computed %08x", name, stored, crc)
	}
	return crc, nil
}

func TestRepositoriesOfEveryGenerationAreReadToTheLastFile(t *testing.T) {
	for name, m := range realRepositories(t) {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", name+".golden")
			got := listing(t, m)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("listing differs from %s:\n%s", golden, got)
			}
		})
	}
}

// TestTheListOfAShardStatesTheChecksums compares them with those that Lucene keeps in the files themselves.
func TestTheListOfAShardStatesTheChecksums(t *testing.T) {
	for name, m := range realRepositories(t) {
		compared := 0
		eachShard(t, m, func(loc Locator, n int) {
			s, err := OpenShard(t.Context(), m, loc, n)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range s.Files {
				f, err := s.Directory().Open(entry.Name)
				if err != nil {
					t.Fatal(err)
				}
				if entry.Checksum == "" {
					continue // Elasticsearch 1 and 2 list none of segments_N
				}
				want, err := crcOf(t.Context(), s, entry.Name)
				if got, stated := f.(*file).Checksum(); err == nil {
					compared++
					if got != want || !stated {
						t.Errorf("%s: %s is listed with %08x (%v), it has %08x", name, entry.Name, got, stated, want)
					}
				}
			}
		})
		if compared == 0 {
			t.Errorf("%s: no file has a checksum", name)
		}
	}
	if sum, stated := (&file{}).Checksum(); stated {
		t.Errorf("a file without a checksum is listed with %08x", sum)
	}
}

// fixtures returns the directories that hold whole repositories with the clusters' own account next to them.
func fixtures(t *testing.T) []string {
	t.Helper()
	var found []string
	accounts, err := filepath.Glob(filepath.Join("..", "..", "..", "testing", "fixtures", "*.metadata.json"))
	if err != nil || len(accounts) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, account := range accounts {
		found = append(found, strings.TrimSuffix(account, ".metadata.json"))
	}
	return found
}

// described is what the snapshot API of a cluster answers.
type described struct {
	Snapshots []struct {
		Snapshot string   `json:"snapshot"`
		State    string   `json:"state"`
		Version  string   `json:"version"`
		Indices  []string `json:"indices"`
		Shards   struct{ Total int }
	} `json:"snapshots"`
}

// readAccount reads both forms of an account: one of all snapshots, or a list with one
// for each snapshot.
func readAccount(t *testing.T, b []byte) account {
	t.Helper()
	var whole account
	if b[0] == '{' {
		if err := json.Unmarshal(b, &whole); err != nil {
			t.Fatal(err)
		}
		return whole
	}
	var each []struct {
		account
		Info described `json:"info"`
	}
	if err := json.Unmarshal(b, &each); err != nil {
		t.Fatal(err)
	}
	for _, e := range each {
		whole.Indices = e.Indices
		whole.Snapshots.Snapshots = append(whole.Snapshots.Snapshots, e.Info.Snapshots...)
	}
	return whole
}

// account is what a cluster said of its snapshots and indices.
type account struct {
	Snapshots described `json:"snapshots"`
	Status    struct {
		Snapshots []struct {
			Snapshot string `json:"snapshot"`
			Indices  map[string]struct {
				Shards map[string]struct {
					Stats struct {
						OldSize int64 `json:"total_size_in_bytes"`
						Total   *struct {
							Files int64 `json:"file_count"`
							Size  int64 `json:"size_in_bytes"`
						} `json:"total"`
					} `json:"stats"`
				} `json:"shards"`
			} `json:"indices"`
		} `json:"snapshots"`
	} `json:"snapshot_status"`
	Indices map[string]struct {
		Mappings map[string]any  `json:"mappings"`
		Aliases  json.RawMessage `json:"aliases"`
	} `json:"indices"`
}

func TestEveryFixtureIsWhatItsClusterSaidItWas(t *testing.T) {
	for _, dir := range fixtures(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(dir + ".metadata.json")
			if err != nil {
				t.Fatal(err)
			}
			want := readAccount(t, b)
			r, err := repo.NewDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			listing(t, r)
			compare(t, r, want)
		})
	}
}

func compare(t *testing.T, r Repository, want account) {
	c, err := OpenCatalog(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, w := range want.Snapshots.Snapshots {
		if !slices.ContainsFunc(c.Snapshots, func(r Ref) bool { return r.Name == w.Snapshot }) {
			continue // deleted after the account was taken
		}
		compared++
		s, err := c.Snapshot(t.Context(), w.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(w.Indices)
		var names []string
		for _, x := range s.Indices {
			names = append(names, x.Name)
		}
		if string(s.State) != w.State || !slices.Equal(names, w.Indices) || s.TotalShards != w.Shards.Total {
			t.Errorf("%s %s of %d shards and %q, the cluster said %+v", s.Name, s.State, s.TotalShards, names, w)
		}
		if w.Version != "" && !strings.HasPrefix(s.Version, w.Version) && !strings.HasPrefix(w.Version, "8.") && !strings.HasPrefix(w.Version, "9.") {
			t.Errorf("%s: version %q, the cluster said %q", s.Name, s.Version, w.Version)
		}
	}
	if compared != len(c.Snapshots) || len(c.Warnings) > 0 {
		t.Errorf("%d snapshots, the cluster told of %d of them; warnings %q", len(c.Snapshots), compared, c.Warnings)
	}
	for _, w := range want.Status.Snapshots {
		s, err := c.Snapshot(t.Context(), w.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		for name, status := range w.Indices {
			x, err := s.Index(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if x.NumShards != len(status.Shards) {
				t.Errorf("%s has %d shards, the cluster said %d", name, x.NumShards, len(status.Shards))
			}
			for number, st := range status.Shards {
				n, err := strconv.Atoi(number)
				if err != nil {
					t.Fatal(err)
				}
				shard, err := OpenShard(t.Context(), r, x.Locator, n)
				if err != nil {
					t.Fatal(err)
				}
				if total := st.Stats.Total; total != nil && (total.Size != shard.TotalBytes || total.Files != int64(len(shard.Files))) {
					t.Errorf("%s/%d: %d files, %d bytes; the cluster said %d and %d", name, n, len(shard.Files), shard.TotalBytes, total.Files, total.Size)
				}
			}
		}
	}
	compareIndices(t, c, want)
}

// compareIndices compares mappings and aliases, as the newest snapshot has them.
func compareIndices(t *testing.T, c *Catalog, want account) {
	last := want.Snapshots.Snapshots[len(want.Snapshots.Snapshots)-1]
	s, err := c.Snapshot(t.Context(), last.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for name, w := range want.Indices {
		x, err := s.Index(t.Context(), name)
		if err != nil {
			continue // made after the snapshot
		}
		compared++
		got := map[string]any{}
		for _, m := range x.Mappings {
			var body any
			if err := json.Unmarshal(m.Body, &body); err != nil {
				t.Fatal(err)
			}
			got[m.Type] = body
		}
		for name, body := range got { // the API of 7 and later leaves the type out
			if body, ok := body.(map[string]any); ok && len(got) == 1 && w.Mappings[name] == nil {
				got = body
			}
		}
		if len(got)+len(w.Mappings) > 0 && !reflect.DeepEqual(got, w.Mappings) {
			t.Errorf("%s: mappings\n%v\nthe cluster said\n%v", name, got, w.Mappings)
		}
		var aliases, wanted map[string]any
		_ = json.Unmarshal(x.Aliases, &aliases)
		_ = json.Unmarshal(w.Aliases, &wanted)
		if a, b := slices.Sorted(maps.Keys(aliases)), slices.Sorted(maps.Keys(wanted)); wanted != nil && !slices.Equal(a, b) {
			t.Errorf("%s: aliases %q, the cluster said %q", name, a, b)
		}
	}
	if compared == 0 && len(want.Indices) > 0 {
		t.Error("no index of the cluster is in the newest snapshot")
	}
}
