package failed_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// A document that the target rejected is kept with its source, and read again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	w, err := failed.Open(dir, "worker-1", failed.Full)
	if err != nil {
		log.Fatal(err)
	}
	rejected := doc.Failure{Index: "weblogs", ID: "7", Status: 400, Reason: "mapper_parsing_exception", Detail: "failed to parse field [bytes]", Source: []byte(`{"bytes":"many"}`)}
	if err := w.Record(ctx, []doc.Failure{rejected}); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil { // with what is on the disk synced
		log.Fatal(err)
	}

	f, err := os.Open(filepath.Join(dir, "worker-1.ndjson"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for line, err := range failed.Lines(f, 1<<20) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(line.Failure.Index, line.Failure.ID, line.Class().Name, string(line.Failure.Source))
	}
	// Output: weblogs 7 value_format {"bytes":"many"}
}
