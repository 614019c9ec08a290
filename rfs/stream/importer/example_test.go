package importer_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/testing/fakecluster"
)

// A file with two documents is imported into a cluster.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	from := filepath.Join(dir, "from")
	if err := os.Mkdir(from, 0o700); err != nil {
		log.Fatal(err)
	}
	lines := `{"index":{"_index":"weblogs","_id":"1"}}` + "\n" + `{"bytes":1}` + "\n" + `{"index":{"_index":"weblogs","_id":"2"}}` + "\n" + `{"bytes":2}` + "\n"
	if err := os.WriteFile(filepath.Join(from, "weblogs.ndjson"), []byte(lines), 0o600); err != nil {
		log.Fatal(err)
	}
	source, err := repo.NewDir(from)
	if err != nil {
		log.Fatal(err)
	}
	store, err := boltcms.Open(filepath.Join(dir, "state.db"), time.Now)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	rejected, err := failed.Open(filepath.Join(dir, "failed"), "worker-1", failed.Full)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rejected.Close() }()
	cluster := fakecluster.New()
	cluster.Do("PUT", "/weblogs", `{}`)
	server := httptest.NewServer(cluster)
	defer server.Close()
	client, err := target.New(ctx, target.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}

	m := importer.Import{
		Source: source, Store: store, Session: session.IdentityOf(cms.New(cms.Config{Store: store, Creator: "example"})), Clock: timing.SystemClock(),
		Log: slog.New(slog.DiscardHandler), Indices: anyIndex{}, Destination: engine.ToCluster(client, engine.Limits{Connections: 2}), Failed: rejected,
	}
	status, err := m.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("complete:", status.Complete, "indexed:", m.Own().Documents)
	for _, k := range cluster.Latest("weblogs", 2) {
		fmt.Println(k.ID, cluster.Documents()[k])
	}
	// Unordered output:
	// complete: true indexed: 2
	// 1 {"bytes":1}
	// 2 {"bytes":2}
}
