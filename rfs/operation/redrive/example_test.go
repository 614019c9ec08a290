package redrive_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/testing/fakecluster"
)

// Two documents failed in a migration. The cause of the first was removed on the target since: the re-drive delivers it, and removes
// it from the file. The second stays.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file, err := failed.Open(dir, "worker-1", failed.Full)
	if err != nil {
		log.Fatal(err)
	}
	err = file.Record(ctx, []doc.Failure{
		{Index: "weblogs", ID: "7", Ordinal: 6, Status: 403, Reason: "cluster_block_exception", Source: []byte(`{"bytes":7}`)},
		{Index: "weblogs", ID: "8", Ordinal: 7, Status: 400, Reason: "mapper_parsing_exception", Source: []byte(`{"bytes":"many"}`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}

	cluster := fakecluster.New()
	cluster.Do("PUT", "/weblogs", `{"mappings":{"properties":{"bytes":{"type":"long"}}}}`)
	server := httptest.NewServer(cluster)
	defer server.Close()
	client, err := target.New(ctx, target.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	run := redrive.Redrive{
		Storage: redrive.Folder(dir), Bulk: bulk.Options{Sender: client}, MaxDocument: 1 << 20, Log: slog.New(slog.DiscardHandler),
		Existing: func(context.Context, string) (bulk.Existing, error) { return bulk.Overwrite, nil },
	}
	report, err := run.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("documents", report.Documents, "indexed", report.Indexed, "failed", report.Failed)
	fmt.Println("left:", report.Classes[0].Index, report.Classes[0].Reason)
	for key, source := range cluster.Documents() {
		fmt.Println("on the target:", key.Index, key.ID, source)
	}
	// Output:
	// documents 2 indexed 1 failed 1
	// left: weblogs mapper_parsing_exception
	// on the target: weblogs 7 {"bytes":7}
}
