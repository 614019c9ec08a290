package s3cms

import (
	"context"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Emptied is the part of an S3 client that Drop needs. Each call is one request; the next Drop repeats failed ones.
type Emptied interface {
	// List returns a page of the names with the prefix after a name, in order, and their versions.
	List(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error)
	// Delete removes an object. It returns no error when the object does not exist.
	Delete(ctx context.Context, name string) error
}

// Drop removes the objects of one session. It returns the number of removed objects, and the names of up to 10 objects in its folder that
// are not rfsd's: these stay. The object that identifies the session is removed last, so that an interrupted Drop can be repeated. No
// process may work on the session any more.
func Drop(ctx context.Context, b Emptied, sess string) (removed int, others []string, err error) {
	if err := cms.CheckSession(sess); err != nil {
		return 0, nil, err
	}
	folder, found := Folder(sess)+"/", false
	for after, more := "", true; more; {
		var names []string
		if names, _, more, err = b.List(ctx, folder, after); err != nil {
			return removed, others, fmt.Errorf("list the stored records: %w", err)
		}
		var own []string
		for _, name := range names {
			after = name
			switch kept := strings.TrimPrefix(name, folder); {
			case kept == conditions:
				found = true
			case strings.HasPrefix(kept, "items/"), strings.HasPrefix(kept, "records/"):
				own = append(own, name)
			case len(others) < maxOthers:
				others = append(others, name)
			}
		}
		errs := make([]error, len(own))
		each(len(own), func(i int) { errs[i] = b.Delete(ctx, own[i]) })
		for i, derr := range errs {
			if derr != nil {
				return removed, others, fmt.Errorf("remove %s: %w", own[i], derr)
			}
			removed++
		}
	}
	if found {
		if err := b.Delete(ctx, folder+conditions); err != nil {
			return removed, others, fmt.Errorf("remove %s: %w", folder+conditions, err)
		}
		removed++
	}
	return removed, others, nil
}

// maxOthers limits the names that Drop returns.
const maxOthers = 10
