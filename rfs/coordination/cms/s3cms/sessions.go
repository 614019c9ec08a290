package s3cms

import (
	"context"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Sessions returns the names of the sessions in a bucket, sorted; "" is the common one. It takes one request per session, regardless of how
// many objects the session has.
func Sessions(ctx context.Context, bucket Bucket) (all []string, err error) {
	common := Folder("")
	for after := ""; ; {
		names, _, _, err := bucket.List(ctx, "", after)
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		if len(names) == 0 {
			return all, nil
		}
		for _, name := range names {
			if name <= after {
				continue
			}
			folder, object, within := strings.Cut(name, "/")
			if after = folder + "0"; !within { // "0" comes after "/"
				after = name
			}
			if within && object == conditions {
				session := folder
				if folder == common {
					session = ""
				}
				if cms.CheckSession(session) == nil && Folder(session) == folder {
					all = append(all, session)
				}
			}
		}
	}
}
