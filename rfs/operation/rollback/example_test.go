package rollback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/testing/fakecluster"
)

// nothingChanged restores the settings of a session that has changed none.
func nothingChanged(context.Context) (map[string]string, error) { return nil, nil }

// A session creates an index next to an existing one, and is undone: only its own index is removed.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := boltcms.Open(filepath.Join(dir, "state.db"), time.Now)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	c := cms.New(cms.Config{Store: store, Creator: "example"})
	if _, err := session.IdentityOf(c).Init(ctx, session.Meta{}); err != nil {
		log.Fatal(err)
	}
	cluster := fakecluster.New()
	cluster.Do("PUT", "/orders", `{}`)
	server := httptest.NewServer(cluster)
	defer server.Close()
	client, err := target.New(ctx, target.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}

	ledger := rollback.NewLedger(client, c, "move-1", slog.New(slog.DiscardHandler))
	mark, err := ledger.Mark(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := ledger.Intend(ctx, rollback.Index, "weblogs"); err != nil {
		log.Fatal(err)
	}
	body, err := mark.Put(rollback.Index, "weblogs", json.RawMessage(`{}`)) // a mapping with the mark in its _meta
	if err != nil {
		log.Fatal(err)
	}
	if err := client.CreateIndex(ctx, "weblogs", body); err != nil {
		log.Fatal(err)
	}
	if err := ledger.Confirm(ctx, rollback.Index, "weblogs"); err != nil {
		log.Fatal(err)
	}

	undo := &rollback.Undo{API: client, Records: session.CreatedOf(c), Phases: session.PhasesOf(c), Mark: mark, Tuned: session.TuningsOf(c).All, Restore: nothingChanged, Unended: true}
	entries, err := undo.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.Kind, e.Name, e.State)
	}
	fmt.Println("left:", cluster.Indices())
	// Output:
	// index weblogs removed
	// left: [orders]
}
