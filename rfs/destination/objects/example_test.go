package objects_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// printed is a target without indices that prints requests.
type printed struct{}

func (printed) IndexExists(context.Context, string) (bool, error) { return false, nil }

func (printed) CreateIndex(_ context.Context, name string, body []byte) error {
	fmt.Println("PUT", name, string(body))
	return nil
}

func ExampleEnsure() {
	index := metadata.Index{Name: "articles", Settings: map[string]string{"index.number_of_shards": "2"}}
	done, err := objects.Ensure(context.Background(), printed{}, openSearch, []metadata.Wanted{{Name: "articles", Index: index}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("created:", done.Created)
	// Output:
	// PUT articles {"settings":{"index.number_of_shards":"2"}}
	// created: [articles]
}
