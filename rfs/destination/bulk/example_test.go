package bulk_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// printed is a target that prints requests and rejects their second document.
type printed struct{}

func (printed) Send(_ context.Context, body []byte, _ int) (bulk.Result, error) {
	fmt.Print(string(body))
	return bulk.Result{Refused: []bulk.Refusal{{Pos: 1, Status: 400, Type: "mapper_parsing_exception"}}}, nil
}

func (printed) Record(_ context.Context, failures []doc.Failure) error {
	fmt.Println("failed:", failures[0].ID, failures[0].Reason)
	return nil
}

func (printed) Sync(context.Context) error { return nil }

// Two documents are sent. The watermark passes the rejected one after it was recorded.
func ExampleLoader() {
	ctx := context.Background()
	l := bulk.New(context.Background(), bulk.Options{Sender: printed{}, Recorder: printed{}, Index: "weblogs"})
	for ordinal, source := range []string{`{"bytes":1}`, `{"bytes":"many"}`} {
		d := doc.Document{Ordinal: int64(ordinal), Index: []byte("weblogs"), ID: fmt.Append(nil, ordinal), Source: []byte(source)}
		if err := l.Add(ctx, &d); err != nil {
			log.Fatal(err)
		}
	}
	if err := l.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("done below", l.Watermark(), "indexed", l.Counts().Indexed)
	// Output:
	// {"index":{"_index":"weblogs","_id":"0"}}
	// {"bytes":1}
	// {"index":{"_index":"weblogs","_id":"1"}}
	// {"bytes":"many"}
	// failed: 1 mapper_parsing_exception
	// done below 2 indexed 1
}
