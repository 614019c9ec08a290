package rules_test

import (
	"fmt"
	"log"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
)

// Documents of one index lose a field and get another name for a second one; their other bytes stay as they are.
func ExampleEditor_Edit() {
	set, err := rules.Parse("rules.toml", []byte(`
[[document]]
match = "weblogs-*"
drop = ["session.cookie"]
rename = [{from = "ip", to = "client_ip"}]
`))
	if err != nil {
		log.Fatal(err)
	}
	d := doc.Document{ID: []byte("1"), Source: []byte(`{"ip": "10.0.0.1", "session": {"cookie": "x", "n": 1.50}}`)}
	keep, err := set.Documents("weblogs-2024").Edit(&d, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(keep, string(d.Source))
	// Output: true {"client_ip": "10.0.0.1", "session": { "n": 1.50}}
}
