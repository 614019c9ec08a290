package verify_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/operation/verify"
)

// unit returns a unit that holds sources by id, in this order.
func unit(name string, documents ...[2]string) verify.Unit {
	return verify.Unit{Name: name, Read: func(_ context.Context, from int64, each func(*verify.Document) error) error {
		for i, d := range documents[from:] {
			if err := each(&verify.Document{Index: []byte("weblogs"), ID: []byte(d[0]), Source: []byte(d[1]), Ordinal: from + int64(i)}); err != nil {
				return err
			}
		}
		return nil
	}}
}

// weblogs is a target with one index of three documents.
type weblogs struct{ held verify.Unit }

func (w weblogs) Content(context.Context, string) (verify.Content, error) {
	return verify.Content{Documents: 3, Units: []verify.Unit{w.held}}, nil
}

func (w weblogs) Count(context.Context, string) (int64, bool, error) { return 3, true, nil }

// A shard of the snapshot is compared with the index on the target. Both sides may be read in any order.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := boltcms.OpenTemporary(filepath.Join(dir, "state"), time.Now)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	v := verify.New(verify.Options{
		Target: weblogs{unit("target", [2]string{"3", `{"bytes": 3}`}, [2]string{"1", `{"bytes":1}`}, [2]string{"2", `{"bytes":20}`})},
		Work:   verify.Work{Store: store, Clock: timing.SystemClock(), Holder: "example", Identity: "snapshot"},
	})
	source := unit("shard 0", [2]string{"1", `{"bytes":1}`}, [2]string{"2", `{"bytes":2}`}, [2]string{"3", `{"bytes":3}`}, [2]string{"4", `{"bytes":4}`})
	all, err := v.Compare(context.Background(), []verify.Group{{Targets: []string{"weblogs"}, Sources: []string{"weblogs"}, Units: []verify.Unit{source}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(all[0].Target, all[0].State)
	for _, d := range all[0].Differences {
		fmt.Printf("%s is %s, %q\n", d.ID, d.Kind, d.Path)
	}
	// Unordered output:
	// weblogs different
	// 2 is different, "bytes"
	// 3 is same_value, ""
	// 4 is missing, ""
}
