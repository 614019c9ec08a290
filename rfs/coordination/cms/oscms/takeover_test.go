package oscms_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// javaIndex is how the Java tool makes its index of work items on OpenSearch.
const javaIndex = `{"settings":{"index":{"number_of_shards":1,"number_of_replicas":1,"refresh_interval":"30s"}},
"mappings":{"properties":{"expiration":{"type":"long"},"completedAt":{"type":"long"},
"leaseHolderId":{"type":"keyword","norms":false},"status":{"type":"keyword","norms":false},"successor_items":{"type":"keyword","norms":false}}}}`

// javaDocuments are the documents of the Java tool at the moments given: T when it completed
// something, E the end of a lease, W its worker. Roots and successors have other fields.
var javaDocuments = map[string]string{
	"shard_setup": `{"scriptVersion":"3.0","expiration":E,"creatorId":"W","nextAcquisitionLeaseExponent":1,"leaseHolderId":"W","completedAt":T}`,
	// done in two leases
	"YQ__0__0":   `{"scriptVersion":"3.0","indexName":"a","expiration":E,"creatorId":"W","nextAcquisitionLeaseExponent":1,"leaseHolderId":"W","successor_items":"YQ__0__500","completedAt":T}`,
	"YQ__0__500": `{"nextAcquisitionLeaseExponent":1,"scriptVersion":"3.0","creatorId":"W","expiration":E,"leaseHolderId":"W","completedAt":T}`,
	// seeded only
	"YQ__1__0": `{"scriptVersion":"3.0","indexName":"a","expiration":0,"creatorId":"W","nextAcquisitionLeaseExponent":0}`,
	// killed in its second lease, at the very cursor of one of ours
	"YQ__2__0":  `{"scriptVersion":"3.0","indexName":"a","expiration":E,"creatorId":"W","nextAcquisitionLeaseExponent":1,"leaseHolderId":"W","successor_items":"YQ__2__40","completedAt":T}`,
	"YQ__2__40": `{"nextAcquisitionLeaseExponent":2,"scriptVersion":"3.0","creatorId":"W","expiration":E,"leaseHolderId":"W"}`,
	// killed before it created its successor
	"YQ__3__0": `{"scriptVersion":"3.0","indexName":"a","expiration":E,"creatorId":"W","nextAcquisitionLeaseExponent":1,"leaseHolderId":"W","successor_items":"YQ__3__70"}`,
	// killed before it completed what it had handed off
	"YQ__4__0":  `{"scriptVersion":"3.0","indexName":"a","expiration":E,"creatorId":"W","nextAcquisitionLeaseExponent":3,"leaseHolderId":"W","successor_items":"YQ__4__80"}`,
	"YQ__4__80": `{"nextAcquisitionLeaseExponent":0,"scriptVersion":"3.0","creatorId":"W","expiration":0}`,
	// given back
	"YQ__5__0":  `{"scriptVersion":"3.0","indexName":"a","expiration":E,"creatorId":"W","nextAcquisitionLeaseExponent":1,"leaseHolderId":"W","successor_items":"YQ__5__33","completedAt":T}`,
	"YQ__5__33": `{"nextAcquisitionLeaseExponent":1,"scriptVersion":"3.0","creatorId":"W","expiration":0,"leaseHolderId":null}`,
}

func TestAQueueOfTheJavaToolIsTakenOver(t *testing.T) {
	c := connect(t, real)
	for _, mode := range []oscms.Mode{oscms.Scripts, oscms.CAS} {
		t.Run(string(mode), func(t *testing.T) {
			sess := session(t, c)
			now := time.Now().Unix()
			put := func(id, doc string, end int64) {
				doc = strings.NewReplacer("E,", fmt.Sprint(end, ","), "T}", fmt.Sprint(now-4000, "}"), `"W"`, `"`+cmstest.Foreign+`"`).Replace(doc)
				send(t, c, http.MethodPut, "/"+itemsIndex(sess)+"/_doc/"+id+"?refresh=true", doc)
			}
			send(t, c, http.MethodPut, "/"+itemsIndex(sess), javaIndex)
			for id, doc := range javaDocuments {
				put(id, doc, now-3600)
			}
			co := cmstest.Coordinator(t, openStore(t, oscms.Config{Client: c, Session: sess, Mode: mode}), 10*time.Minute)

			put("YQ__2__40", javaDocuments["YQ__2__40"], now+600) // one of its workers is alive
			var busy *cms.ForeignWorker
			if err := cmstest.Join(t.Context(), co); !errors.As(err, &busy) || busy.Item != "YQ__2__40" || busy.Holder != cmstest.Foreign {
				t.Fatalf("got %v", err)
			}
			put("YQ__2__40", javaDocuments["YQ__2__40"], now-60)

			if err := cmstest.Join(t.Context(), co); err != nil {
				t.Fatal(err)
			}
			did := cmstest.Drain(t, co)
			for n := range 6 {
				want := []int64{0, 40, 80}
				if n == 0 {
					want = nil
				}
				if !slices.Equal(did[n], want) {
					t.Errorf("shard %d was done from %v, want %v", n, did[n], want)
				}
			}
			rep, done, err := co.Finish(t.Context())
			if err != nil || !done || len(rep.Repaired) != 0 {
				t.Errorf("%+v done=%v %v", rep, done, err)
			}
			if fresh, err := co.Event(t.Context(), cms.SetupID, "taken_over", ""); err != nil || fresh {
				t.Errorf("no event: %v", err)
			}
			raw := send(t, c, http.MethodPost, "/"+itemsIndex(sess)+"/_search?rest_total_hits_as_int=true",
				`{"size":0,"query":{"bool":{"must":[{"exists":{"field":"expiration"}}],"must_not":[{"exists":{"field":"completedAt"}}]}}}`)
			if !strings.Contains(raw, `"total":0`) {
				t.Errorf("the other tool would find work left: %s", raw)
			}
		})
	}
}
