package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// One shard is read from the list of snapshots down to the first of its documents.
func Example() {
	ctx := context.Background()
	blobs, err := repo.NewDir("../../../testing/fixtures/7.10.2-demo")
	if err != nil {
		log.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(ctx, blobs)
	if err != nil {
		log.Fatal(err)
	}
	snap, err := catalog.Snapshot(ctx, "snap1")
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range snap.Indices {
		fmt.Println(x.Name)
	}
	index, err := snap.Index(ctx, "weblogs")
	if err != nil {
		log.Fatal(err)
	}
	shard, err := snapshot.OpenShard(ctx, blobs, index.Locator, 0)
	if err != nil {
		log.Fatal(err)
	}
	commit, err := lucene.Open(ctx, shard.Directory(), lucene.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = commit.Close() }()
	fmt.Println(commit.Version, commit.LiveDocs)

	reader, documents := commit.Reader(lucene.ReadOptions{}), doc.NewDecoder("weblogs", 0)
	defer func() { _ = reader.Close() }()
	for {
		record, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		d, failure := documents.Decode(record)
		if failure != nil {
			log.Fatal(failure.Reason)
		}
		if record.Ordinal == 0 {
			fmt.Printf("%s %.60s\n", d.ID, d.Source)
		}
	}
	// Output:
	// catalogue
	// orders
	// weblogs
	// 8.7.0 100
	// 4FQm_KEBGrww0-CeRvTx {"@timestamp":"2024-01-01T00:00:00.129Z","level":"INFO","ser
}
