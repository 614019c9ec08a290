package metadata_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

func ExampleConvertIndex() {
	index := metadata.Index{
		Name:     "articles",
		Settings: map[string]string{"index.number_of_shards": "2", "index.version.created": "2040699"},
		Mappings: []metadata.Mapping{{Type: "article", Body: json.RawMessage(`{"properties":{"title":{"type":"string"}}}`)}},
	}
	done, err := metadata.ConvertIndex(target.Version{Distribution: "opensearch", Major: 2, Minor: 19}, metadata.Wanted{Name: "articles", Index: index})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(done.Body))
	for _, c := range done.Changes {
		fmt.Println(c.Rule, c.Path)
	}
	// Output:
	// {"mappings":{"properties":{"title":{"type":"text"}}},"settings":{"index.number_of_shards":"2"}}
	// string-to-text title
}
