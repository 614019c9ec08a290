package fault

import (
	"net/http"
	"slices"
	"strings"
)

const (
	remedyDisks       = "free space there, or add disks; the cluster lifts the block some minutes later; `rfsd plan --only disks` names the nodes"
	remedyPermissions = "grant it to the user (PERMISSIONS.md has roles); `rfsd plan --only access` names everything that is missing"
)

// general are types of errors that add nothing to their reasons.
var general = []string{"illegal_argument_exception", "illegal_state_exception"}

// Explain returns the message of a cluster's error for display, from its status, type and reason, and the remedy, or "" if none is known.
func Explain(status int, kind, reason string) (text, remedy string) {
	blocked := slices.Contains(blockTypes, kind)
	switch {
	case blocked && strings.Contains(reason, "/10/"):
		return "the disks of the cluster are above their high watermark, so that it creates no index", remedyDisks
	case blocked && strings.Contains(reason, "/12/"):
		return "a disk of the cluster is above its flood stage, so that the index takes no documents", remedyDisks
	case status == http.StatusForbidden && kind == "security_exception":
		text, _, _ = strings.Cut(reason, " and User [") // the names of all roles follow
		return text, remedyPermissions
	case status == http.StatusForbidden && kind == "" && reason == "": // the response to a HEAD request has no body
		return "a permission of the user is missing", remedyPermissions
	case kind == "" || reason != "" && slices.Contains(general, kind):
		return reason, ""
	case reason == "":
		return kind, ""
	}
	return kind + ": " + reason, ""
}
