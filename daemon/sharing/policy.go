package sharing

import (
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Trust is the extent to which a node trusts a record.
type Trust struct {
	// Doubt is the reason why the record's Signed settings are not accepted, with the remedy; "" if they are.
	Doubt string
}

// TrustOf returns how far a node with these keys trusts the record. seen is the highest revision of a signed record that this node has
// accepted.
func TrustOf(keys Keys, s Scope, r session.SharedRecord, seen int64) Trust {
	switch {
	case len(keys) == 0:
		return Trust{"this node has no key to check them with: give it --fleet-key (the same file on all nodes, made by `rfsctl cert gossip-key FILE`), or these settings themselves"}
	case r.Signature == "":
		return Trust{"the record is not signed: start a node that has these settings and --fleet-key once with --share-settings"}
	case !keys.Signed(s, r):
		return Trust{"this node's key has not signed the record for this session and cluster, or the record was changed: give all nodes the same --fleet-key, find the process that writes to the control index, and start a node that has these settings once with --share-settings"}
	case r.Revision < seen:
		return Trust{fmt.Sprintf("the record is of revision %d and this node has seen %d: an old one was put back; find the process that writes to the control index, and start a node that has these settings once with --share-settings", r.Revision, seen)}
	}
	return Trust{}
}

// Accepts reports whether a setting of the record is accepted.
func (j Trust) Accepts(name string, values []string) bool {
	switch ClassOf(name, values) {
	case Pace:
		return true
	case Signed:
		return j.Doubt == ""
	}
	return false
}

// Next returns the revision of a new record: above seen, the highest revision that the node has seen, above the stored one and, if clocks
// agree, above the revisions of other nodes. now is in milliseconds.
func Next(seen, stored, now int64) int64 { return max(seen+1, stored+1, now) }
