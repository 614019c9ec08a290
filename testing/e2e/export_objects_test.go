package e2e

import (
	"bytes"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/fakecluster"
	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/s3server"
	"github.com/rfsd/rfsd/testing/truth"
)

// objectStore is the empty bucket of a real server.
type objectStore struct {
	uri     string
	options repo.Options
	args    []string // of commands that write to it or read from it
}

// objectStores start a server of each kind.
var objectStores = map[string]func(t *testing.T) objectStore{
	"S3": func(t *testing.T) objectStore {
		root := t.TempDir()
		must(t, os.Mkdir(filepath.Join(root, "bucket"), 0o755))
		s := s3server.Start(t, root)
		s.Setenv(t)
		return objectStore{"s3://bucket/exports/nightly", repo.Options{S3: repo.S3Options{Region: s.Region, Endpoint: s.Endpoint, PathStyle: true}},
			[]string{"--s3-region", s.Region, "--s3-endpoint", s.Endpoint, "--s3-path-style"}}
	},
	"GCS": func(t *testing.T) objectStore {
		s := objectserver.StartGCS(t)
		return objectStore{"gs://bucket/exports/nightly", repo.Options{GCS: repo.GCSOptions{Endpoint: s.Endpoint}}, []string{"--gcs-endpoint", s.Endpoint}}
	},
	"Azure": func(t *testing.T) objectStore {
		a := objectserver.StartAzurite(t)
		return objectStore{"azblob://bucket/exports/nightly", repo.Options{Azure: repo.AzureOptions{Account: a.Account, Endpoint: a.Endpoint, KeyFile: a.KeyFile}},
			[]string{"--azure-account", a.Account, "--azure-endpoint", a.Endpoint, "--azure-key-file", a.KeyFile}}
	},
}

// objects returns the names of the objects of documents in an export.
func (s objectStore) objects(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range s.names(t) {
		if export.OfAttempt(name) {
			names = append(names, name)
		}
	}
	return names
}

func (s objectStore) names(t *testing.T) (names []string) {
	t.Helper()
	r, err := repo.Open(t.Context(), s.uri, s.options)
	must(t, err)
	for b, err := range r.List(t.Context(), "") {
		must(t, err)
		names = append(names, b.Name)
	}
	return names
}

// load returns the documents of a finished export, and fails unless the manifest lists exactly the objects that the bucket has.
func (s objectStore) load(t *testing.T) truth.Docs {
	t.Helper()
	r, err := repo.Open(t.Context(), s.uri, s.options)
	must(t, err)
	get := func(name string) []byte {
		t.Helper()
		b, err := repo.ReadAll(t.Context(), r, name, 1<<30)
		must(t, err)
		return b
	}
	m, err := export.ParseManifest(get(export.ManifestName))
	must(t, err)
	dir := t.TempDir()
	var listed []string
	for _, e := range m.Files {
		path := filepath.Join(dir, filepath.FromSlash(e.Name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, get(e.Name), 0o600))
		listed = append(listed, e.Name)
	}
	if there := s.objects(t); !slices.Equal(slices.Sorted(slices.Values(there)), listed) {
		t.Errorf("the bucket has the objects %q, the manifest lists %q", there, listed)
	}
	docs, err := truth.LoadExport(dir)
	must(t, err)
	if !m.Complete || m.Documents != int64(len(docs)) {
		t.Errorf("the manifest counts %d documents (complete: %v), the objects have %d", m.Documents, m.Complete, len(docs))
	}
	return docs
}

// TestKilledExportToABucket_ContinuesAndLosesNothing kills an export, which then continues in the bucket. The export is imported from there.
func TestKilledExportToABucket_ContinuesAndLosesNothing(t *testing.T) {
	notShort(t)
	from := fixture(t, "7.10.2-many-chunks")
	want, err := truth.Load(false, from+".ndjson.gz")
	must(t, err)
	for _, name := range draw.Of(t, 1, slices.Sorted(maps.Keys(objectStores))) {
		t.Run(name, func(t *testing.T) {
			s, dir := objectStores[name](t), t.TempDir()
			t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
			args := exportArgs(from, s.uri, s.args...)
			kills := 1
			if name == "S3" {
				kills = 2
			}
			for i := range kills {
				cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), append(args, "--max-rate", "30MB")...)
				var said bytes.Buffer
				cmd.Dir, cmd.Stderr = dir, &said
				had := len(s.objects(t))
				ended := startAndWatch(t, cmd)
				until(t, "the export has further objects", func() bool { return len(s.objects(t)) > had+i || isClosed(ended) })
				if isClosed(ended) {
					t.Fatalf("run %d ended before it was killed: %s", i, said.String())
				}
				must(t, cmd.Process.Kill())
				<-ended
			}
			left := len(s.objects(t))
			res := RunIn(t, dir, nil, "rfsd", args...)
			if res.Code != 0 {
				t.Fatalf("exit %d: %s", res.Code, res.Stderr)
			}
			if f := truth.Compare(want, s.load(t)).Exact(); f != "" {
				t.Error(f)
			}
			if sum := parseSummary(t, res); sum.total() != len(want) {
				t.Errorf("the summary counts %d documents of %d", sum.total(), len(want))
			}
			target := httptest.NewServer(fakecluster.New())
			defer target.Close()
			for _, command := range [][]string{{"import", "--create-indices"}, {"verify"}} {
				in := slices.Concat(command, []string{"--from", s.uri, "--target-host", target.URL, "--coordinator-file", filepath.Join(dir, "import.db")}, s.args)
				if res := RunIn(t, dir, nil, "rfsd", in...); res.Code != 0 {
					t.Errorf("rfsd %v: exit %d: %s%s", in, res.Code, res.Stdout, res.Stderr)
				}
			}
			t.Logf("%d documents in %d objects; the killed runs had left %d", len(want), len(s.objects(t)), left)
		})
	}
}

// TestThreeNodesExportToABucket: they share nothing but the bucket. One of them is killed and started again.
func TestThreeNodesExportToABucket(t *testing.T) {
	notShort(t)
	from := demoRepo()
	want, err := truth.Load(true, from+".ndjson.gz")
	must(t, err)
	stored, err := truth.LoadStored(from)
	must(t, err)
	for _, name := range draw.Of(t, 1, slices.Sorted(maps.Keys(objectStores))) {
		t.Run(name, func(t *testing.T) {
			s, dir := objectStores[name](t), t.TempDir()
			t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
			start := func(name string) *exporter {
				own := filepath.Join(dir, name)
				must(t, os.MkdirAll(own, 0o755))
				return startExporter(t, own, slices.Concat([]string{"run", "--repo-uri", from, "--snapshot-name", "snap1", "--export-dir", s.uri, "--emit-doc-type", "ON",
					"--export-compression", "zstd", "--max-rate", "20kB", "--node-name", name, "--workers", "2", "--exit-when-done", "--initial-lease-duration", "10s",
					"--socket", "off", "--status-socket", "off"}, s.args)...)
			}
			nodes := []*exporter{start("n0"), start("n1"), start("n2")}
			until(t, "the first object is stored", func() bool { return len(s.objects(t)) > 0 })
			must(t, nodes[1].cmd.Process.Kill())
			<-nodes[1].end
			nodes[1] = start("n1")
			for _, x := range nodes {
				select {
				case err := <-x.end:
					if err != nil {
						t.Errorf("a node ended with %v\n%s", err, x.said)
					}
				case <-time.After(3 * time.Minute):
					t.Fatal("a node does not end")
				}
			}
			counts, faults := truth.Count("7.10.2-demo", want, stored, ignoreMeaninglessTypes(s.load(t)))
			if faults != "" || len(counts) == 0 {
				t.Error(faults)
			}
			if names := s.names(t); !slices.Contains(names, "rfsd-mappings.json") || !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, ".rfsd/state/") }) {
				t.Errorf("mappings or state of the work are missing: %q", names)
			}
		})
	}
}
