package abuse

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/draw"
)

func deflated(t *testing.T, parts ...io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("DFL\x00")
	w, err := flate.NewWriter(&b, flate.BestCompression)
	must(t, err)
	_, err = io.Copy(w, io.MultiReader(parts...))
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

// repeated is a reader of n times the text.
func repeated(text string, n int) io.Reader {
	return io.LimitReader(&cycle{text: text}, int64(len(text)*n))
}

type cycle struct {
	text string
	at   int
}

func (c *cycle) Read(b []byte) (int, error) {
	if len(c.text) == 1 {
		for i := range b {
			b[i] = c.text[0]
		}
		return len(b), nil
	}
	for i := range b {
		b[i] = c.text[c.at]
		c.at = (c.at + 1) % len(c.text)
	}
	return len(b), nil
}

// hostileCatalogs are a few hundred bytes that become gigabytes, layers of compression, entries without end.
func hostileCatalogs(t *testing.T) map[string][]byte {
	t.Helper()
	entries := deflated(t, strings.NewReader(`{"snapshots":[`), repeated(`{},`, 100_000_000), strings.NewReader(`{}]}`))
	nested := entries
	for range 3 {
		nested = deflated(t, bytes.NewReader(nested))
	}
	layers := []byte(`{"snapshots":[]}`)
	for range 300 {
		layers = deflated(t, bytes.NewReader(layers))
	}
	return map[string][]byte{"entries": entries, "nested": nested, "layers": layers, "blanks": deflated(t, repeated(" ", 220<<20), strings.NewReader("{}"))}
}

func TestHostileCatalogs(t *testing.T) {
	for name, blob := range hostileCatalogs(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "index-0"), blob, 0o600))
			e := run(t, patience, nil, "rfsctl", "snapshot", "list", "--repo-uri", dir)
			if e.late || e.code == 0 || !strings.Contains(e.stderr, "index-0") {
				t.Errorf("exit %d, ran on %t: %.300s", e.code, e.late, e.stderr)
			}
			if e.memory > mostMemory {
				t.Errorf("%d bytes became %d MB", len(blob), e.memory>>20)
			}
		})
	}
}

// hostileIndices are metadata that claims shards without end, or becomes values without end.
func hostileIndices(t *testing.T) map[string][]byte {
	t.Helper()
	many := func(text string, n int) []byte {
		return deflated(t, strings.NewReader(`{"order-check":{"state":"open","mappings":[],"aliases":{},"settings":{"index.number_of_shards":"1","index.x":[`), repeated(text, n), strings.NewReader(`0]}}}`))
	}
	mapping := deflated(t, strings.NewReader(`{"order-check":{"state":"open","settings":{"index.number_of_shards":"1"},"aliases":{},"mappings":{"_doc":{"properties":{"a":[`), repeated(`{},`, 9_000_000), strings.NewReader(`0]}}}}}`))
	return map[string][]byte{
		"shards":   []byte(`{"order-check":{"state":"open","mappings":[],"aliases":{},"settings":{"index.number_of_shards":"1048576","index.version.created":"137247827"}}}`),
		"settings": many(`0,`, 8_000_000), "mappings": mapping,
	}
}

// TestHostileIndices: the metadata of one index, or of all.
func TestHostileIndices(t *testing.T) {
	for name, payload := range hostileIndices(t) {
		t.Run(name, func(t *testing.T) {
			dir := fixture(t)
			metas, err := filepath.Glob(filepath.Join(dir, "indices", "*", "meta-*.dat"))
			must(t, err)
			writeMetadata(t, metas, payload)
			for _, args := range [][]string{
				{"rfsctl", "snapshot", "show", "--repo-uri", dir, "--snapshot-name", "snap1"},
				{"rfsd", "plan", "--repo-uri", dir, "--snapshot-name", "snap1"},
				{"rfsd", "migrate", "--repo-uri", dir, "--snapshot-name", "snap1", "--export-dir", filepath.Join(t.TempDir(), "x"), "--coordinator-file", filepath.Join(t.TempDir(), "state.db")},
			} {
				e := run(t, patience, nil, args[0], args[1:]...)
				named := strings.Contains(e.stdout+e.stderr, "meta-") && e.code != 0
				if e.late || !named {
					t.Errorf("%q: exit %d, ran on %t: %.300s %.300s", args[:2], e.code, e.late, e.stdout, e.stderr)
				}
				if e.memory > mostMemory {
					t.Errorf("%q: %d bytes became %d MB", args[:2], len(payload), e.memory>>20)
				}
			}
		})
	}
}

func migrate(t *testing.T, c *cluster, most time.Duration) ended {
	t.Helper()
	return run(t, most, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", "migrate", "--repo-uri", fixture(t), "--snapshot-name", "snap1", "--target-host", serve(t, c),
		"--target-username", "admin", "--coordinator-file", filepath.Join(t.TempDir(), "state.db"), "--phases", "documents", "--output", "json")
}

// TestACompressedBulkAnswer: 1 MB that becomes 1 GB, for each request.
func TestACompressedBulkAnswer(t *testing.T) {
	draw.Test(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.Copy(z, repeated(" ", 1<<30))
	must(t, err)
	must(t, z.Close())
	e := migrate(t, &cluster{bulk: func(w http.ResponseWriter, _ []string) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}}, 10*time.Second)
	if e.code == 0 && !e.late || e.memory > mostMemory {
		t.Errorf("exit %d, %d MB: %.500s", e.code, e.memory>>20, e.stderr)
	}
}

// TestBulkAnswersThatDoNotAddUp: nothing counts as arrived.
func TestBulkAnswersThatDoNotAddUp(t *testing.T) {
	same := func(op string, item map[string]any) (string, map[string]any) { return op, item }
	for _, c := range []struct {
		name string
		bulk func(http.ResponseWriter, []string)
		good bool
	}{
		{"as it should be", taken(false, same), true},
		{"status 100", taken(false, func(op string, item map[string]any) (string, map[string]any) { item["status"] = 100; return op, item }), false},
		{"errors without a refused item", taken(true, same), false},
		{"another operation", taken(false, func(_ string, item map[string]any) (string, map[string]any) { return "delete", item }), false},
		{"another index", taken(false, func(op string, item map[string]any) (string, map[string]any) {
			item["_index"] = "other"
			return op, item
		}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			most := 6 * time.Second // a body is sent again for 10 minutes
			if c.good {
				most = patience
			}
			e := migrate(t, &cluster{bulk: c.bulk}, most)
			if arrived := regexp.MustCompile(`"indexed": [1-9]`).MatchString(e.stdout); arrived != c.good {
				t.Errorf("arrived %t: exit %d %.500s %.500s", arrived, e.code, e.stdout, e.stderr)
			}
		})
	}
}

// escape steers a terminal, in seven bits and in eight.
const escape = "\x1b]0;pwned\x07\x1b[2J\u009b2J"

// TestTerminalEscapes: names of snapshots and the words of nodes.
func TestTerminalEscapes(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "index-0"), []byte(`{"snapshots":[{"name":"a`+strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`).Replace(escape)+`","uuid":"u","state":1}],"indices":{}}`), 0o600))
	words := serveWords(t)
	for _, args := range [][]string{
		{"rfsctl", "snapshot", "list", "--repo-uri", dir},
		{"rfsctl", "snapshot", "show", "--repo-uri", dir, "--snapshot-name", "x" + escape},
		{"rfsctl", "snapshot", "show", "--repo-uri", dir, "--snapshot-name", "absent"},
		{"rfsctl", "status", "--node", words},
		{"rfsctl", "status" + escape},
		{"rfsd", "migrate", "--repo-uri", dir, "--snapshot-name", "absent", "--discard"},
		{"rfsd", "migrate", "--repo-uri", "x" + escape, "--snapshot-name", "absent", "--discard"},
		{"rfsd", "plan", "--repo-uri", dir, "--snapshot-name", "absent"},
		{"rfsd", "migrate", "--repo-uri", dir, "--snapshot-name", "s", "--target-host", "http://" + words, "--coordinator-file", filepath.Join(dir, "db")},
		{"rfsd", "no" + escape},
	} {
		e := run(t, patience, []string{"RFS_TARGET_PASSWORD=x"}, args[0], args[1:]...)
		for stream, text := range map[string]string{"stdout": e.stdout, "stderr": e.stderr} {
			if strings.ContainsAny(text, "\x1b\x07\u009b") {
				t.Errorf("%q: %s %q", args, stream, text)
			}
		}
	}
}

// TestEscapesInNamesOfIndices: each command that shows or moves an index whose name steers a terminal.
func TestEscapesInNamesOfIndices(t *testing.T) {
	dir := t.TempDir()
	quoted := `"i` + strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`).Replace(escape) + `"`
	put := func(name, codec, text string) {
		var b blob
		if codec == "" {
			b.WriteString(text)
		} else {
			b.begin(codec, 1, false)
			b.WriteString(text)
			b.end()
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, b.Bytes(), 0o600))
	}
	put("index-0", "", `{"snapshots":[{"name":"snap1","uuid":"u","state":1,"version":"7.10.2"}],"indices":{`+quoted+`:{"id":"x","snapshots":["u"],"shard_generations":["g"]}}}`)
	put("snap-u.dat", "snapshot", `{"snapshot":{"name":"snap1","uuid":"u","version_id":7100299,"indices":[`+quoted+`],"state":"SUCCESS","include_global_state":false,"start_time":1,"end_time":2,"total_shards":1,"successful_shards":1,"failures":[]}}`)
	put("indices/x/meta-u.dat", "index-metadata", `{`+quoted+`:{"state":"open","settings":{"index.number_of_shards":"1","index.version.created":"7100299"},"mappings":[],"aliases":{}}}`)
	files, _ := longShard(t, "ZstdStoredFields814", 10)
	list := ""
	for name, b := range files {
		put("indices/x/0/__"+name, "", string(b))
		list += fmt.Sprintf(`,{"name":"__%s","physical_name":"%s","length":%d}`, name, name, len(b))
	}
	put("indices/x/0/snap-u.dat", "snapshot", `{"name":"snap1","files":[`+list[1:]+`]}`)
	from := []string{"--repo-uri", dir, "--snapshot-name", "snap1"}
	shown := 0
	for _, args := range [][]string{
		append([]string{"rfsctl", "snapshot", "show"}, from...),
		append([]string{"rfsctl", "snapshot", "check"}, from...),
		append([]string{"rfsd", "plan"}, from...),
		append([]string{"rfsd", "migrate", "--discard"}, from...),
		append([]string{"rfsd", "migrate", "--discard", "--index-allowlist", "absent"}, from...),
		append([]string{"rfsd", "migrate", "--log-level", "debug", "--export-dir", filepath.Join(t.TempDir(), "x"), "--coordinator-file", filepath.Join(t.TempDir(), "db")}, from...),
		append([]string{"rfsd", "migrate", "--unavailable-timeout", "2s", "--target-host", serve(t, &cluster{}), "--target-username", "admin", "--coordinator-file", filepath.Join(t.TempDir(), "db")}, from...),
	} {
		e := run(t, patience, []string{"RFS_TARGET_PASSWORD=x"}, args[0], args[1:]...)
		for stream, text := range map[string]string{"stdout": e.stdout, "stderr": e.stderr} {
			if e.late || strings.ContainsAny(text, controls) {
				t.Errorf("%q: %s %q", args, stream, text)
			}
			if strings.Contains(text, "pwned") {
				shown++
			}
		}
	}
	if shown < 5 {
		t.Errorf("only %d outputs show the name: nothing is proven", shown)
	}
}

// serveWords is a node, or a target, whose every answer is an error with an escape in it.
func serveWords(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":"`+strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`).Replace(escape)+`","category":"internal"}`)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return l.Addr().String()
}
