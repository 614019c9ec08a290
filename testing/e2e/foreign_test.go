package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/cluster"
)

// TestMigrate_QueueOfTheJavaTool checks that a session that the Java tool began is refused before anything is written.
func TestMigrate_QueueOfTheJavaTool(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	session := fmt.Sprintf("java-%d", time.Now().UnixNano())
	index := "/.migrations_working_state_" + session
	const worker = "generated__5d1f0a9b-e3d4-4d52-8f0e-0b2f6c1e9a37"
	must(t, n.JSON(t.Context(), "PUT", index, json.RawMessage(`{"settings":{"index":{"refresh_interval":"30s"}},
		"mappings":{"properties":{"expiration":{"type":"long"},"completedAt":{"type":"long"},"leaseHolderId":{"type":"keyword"},
		"status":{"type":"keyword"},"successor_items":{"type":"keyword"}}}}`), nil))
	now := time.Now().Unix()
	must(t, n.JSON(t.Context(), "PUT", index+"/_doc/"+cms.SetupID+"?refresh=true", json.RawMessage(fmt.Sprintf(
		`{"scriptVersion":"3.0","expiration":%d,"creatorId":%q,"nextAcquisitionLeaseExponent":1,"leaseHolderId":%q,"completedAt":%d}`,
		now-600, worker, worker, now-800)), nil))
	refusedWith(t, Run(t, "rfsd", targetArgs(n.URL, demo(t), "--session-name", session)...), "another tool", "--session-name")
	for _, name := range catIndices(t, n) {
		if !strings.HasPrefix(name, ".") {
			t.Errorf("%s was made", name)
		}
	}
}
