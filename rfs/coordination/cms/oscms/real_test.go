package oscms_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// real is the version on which single features are tested; the suite runs on all versions.
const real = "2.19.4"

func TestADeletedQueueIsGoneAndNeverMadeAgain(t *testing.T) {
	c := connect(t, real)
	for _, mode := range []oscms.Mode{oscms.Scripts, oscms.CAS} {
		t.Run(string(mode), func(t *testing.T) {
			sess := freshSession(t, c)
			s := openStore(t, oscms.Config{Client: c, Session: sess, Mode: mode})
			co := cmstest.Coordinator(t, s, 10*time.Minute)
			cmstest.Seed(t, co, "a", 1)
			l, err := co.AcquireNext(t.Context(), "h", nil)
			if err != nil {
				t.Fatal(err)
			}
			send(t, c, http.MethodDelete, "/"+itemsIndex(sess), "")
			for name, err := range map[string]error{
				"progress": l.Progress(t.Context(), 5, cms.Work{}),
				"handoff":  l.Handoff(t.Context(), 5, cms.Work{}),
				"complete": l.Complete(t.Context(), cms.Work{}),
				"check":    l.Check(),
				"create":   createErr(t, s),
				"open":     openErr(t, s),
				"reopen":   reopenErr(t, oscms.Config{Client: c, Session: sess}),
			} {
				if !errors.Is(err, cms.ErrStoreGone) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if status, _, err := c.Do(t.Context(), http.MethodHead, "/"+itemsIndex(sess), nil, nil); err != nil || status != http.StatusNotFound {
				t.Errorf("the index was made again: %d %v", status, err)
			}
		})
	}
}

func createErr(t *testing.T, s *oscms.Store) error {
	_, err := s.Create(t.Context(), []cms.Item{cms.NewItem(cmstest.ID("a", 5, 0), "c", 0)})
	return err
}

func openErr(t *testing.T, s *oscms.Store) error {
	_, err := s.Open(t.Context())
	return err
}

func reopenErr(t *testing.T, cfg oscms.Config) error {
	_, err := oscms.Open(t.Context(), cfg)
	return err
}

func TestAReplacedQueueIsNoticed(t *testing.T) {
	c := connect(t, real)
	sess := freshSession(t, c)
	openStore(t, oscms.Config{Client: c, Session: sess})
	openStore(t, oscms.Config{Client: c, Session: sess}) // the same again is fine
	send(t, c, http.MethodDelete, "/"+itemsIndex(sess), "")
	send(t, c, http.MethodPut, "/"+itemsIndex(sess), `{}`)
	if err := reopenErr(t, oscms.Config{Client: c, Session: sess}); !errors.Is(err, cms.ErrStoreGone) {
		t.Errorf("got %v", err)
	}
}

func TestSessionsAreIndependentAndWellNamed(t *testing.T) {
	c := connect(t, real)
	a := openStore(t, oscms.Config{Client: c, Session: freshSession(t, c)})
	b := openStore(t, oscms.Config{Client: c, Session: freshSession(t, c)})
	if _, err := a.Create(t.Context(), []cms.Item{cms.NewItem(cmstest.ID("a", 0, 0), "c", 0)}); err != nil {
		t.Fatal(err)
	}
	if o, err := b.Open(t.Context()); err != nil || o.Items != 0 {
		t.Errorf("%+v %v", o, err)
	}
}

// TestOpen_JoinCreatesNothing joins a session that was deleted, and one that exists.
func TestOpen_JoinCreatesNothing(t *testing.T) {
	c := connect(t, real)
	name := freshSession(t, c)
	if _, err := oscms.Open(t.Context(), oscms.Config{Client: c, Session: name, Join: true}); !errors.Is(err, cms.ErrStoreGone) {
		t.Errorf("a deleted session: %v", err)
	}
	if status, _, err := c.Do(t.Context(), http.MethodHead, "/"+oscms.ControlIndex(name), nil, nil); status != http.StatusNotFound || err != nil {
		t.Errorf("the session was begun again: %d %v", status, err)
	}
	openStore(t, oscms.Config{Client: c, Session: name})
	if _, err := oscms.Open(t.Context(), oscms.Config{Client: c, Session: name, Join: true}); err != nil {
		t.Errorf("a session that exists: %v", err)
	}
}

func TestScriptsDisabledMeansConditionalWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	node := cluster.OpenSearch(t, real, cluster.Setting("script.allowed_types", "none"))
	c := connectURL(t, node.URL)
	s := openStore(t, oscms.Config{Client: c, Session: freshSession(t, c)})
	if s.Mode() != oscms.CAS {
		t.Fatalf("mode %s", s.Mode())
	}
	co := cmstest.Coordinator(t, s, 10*time.Minute)
	cmstest.Seed(t, co, "a", 2)
	for range 2 {
		l, err := co.AcquireNext(t.Context(), "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Complete(t.Context(), cms.Work{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, done, err := session.AuditsOf(co).Finish(t.Context()); err != nil || !done {
		t.Errorf("done=%v %v", done, err)
	}
}

func TestJunkInDocumentsIsReadAsTheContractSays(t *testing.T) {
	c := connect(t, real)
	for _, mode := range []oscms.Mode{oscms.Scripts, oscms.CAS} {
		t.Run(string(mode), func(t *testing.T) {
			sess := freshSession(t, c)
			s := openStore(t, oscms.Config{Client: c, Session: sess, Mode: mode})
			for i, doc := range []string{
				`{"scriptVersion":"3.0","expiration":0}`,
				`{"scriptVersion":"3.0","expiration":0,"nextAcquisitionLeaseExponent":-4}`,
				`{"scriptVersion":"3.0","expiration":0,"nextAcquisitionLeaseExponent":2.5,"completedAt":null}`,
				`{"scriptVersion":"3.0","expiration":0,"foreign":{"kept":[1,2]},"leaseHolderId":null}`,
			} {
				id := cmstest.ID("a", i, 0)
				send(t, c, http.MethodPut, "/"+itemsIndex(sess)+"/_doc/"+id, doc)
				it, v, err := s.Apply(t.Context(), id, cms.Acquire{Holder: "h", InitialMs: 60_000, MaxMs: 600_000, MaxAttempts: 5})
				if err != nil || v != cms.Applied || it.Exponent != 1 || it.Expiration*1000-it.AcquiredAt > 61_000 {
					t.Errorf("%s: %v %+v %v", doc, v, it, err)
				}
			}
			if o, err := s.Open(t.Context()); err != nil || o.Items != 4 {
				t.Errorf("explicit null counts as open: %+v %v", o, err)
			}
			raw := send(t, c, http.MethodGet, "/"+itemsIndex(sess)+"/_doc/"+cmstest.ID("a", 3, 0), "")
			if !strings.Contains(raw, `"kept":[1,2]`) {
				t.Errorf("a foreign field was lost: %s", raw)
			}
			if _, v, err := s.Apply(t.Context(), cmstest.ID("a", 3, 0), cms.Release{Holder: "h"}); err != nil || v != cms.Applied {
				t.Fatal(v, err)
			}
			raw = send(t, c, http.MethodGet, "/"+itemsIndex(sess)+"/_doc/"+cmstest.ID("a", 3, 0), "")
			if !strings.Contains(raw, `"leaseHolderId":null`) || !strings.Contains(raw, `"kept":[1,2]`) {
				t.Errorf("released: %s", raw)
			}
		})
	}
}

func TestADocumentThatIsNoItemIsReportedAndLeftAlone(t *testing.T) {
	c := connect(t, real)
	sess := freshSession(t, c)
	s := openStore(t, oscms.Config{Client: c, Session: sess})
	co := cmstest.Coordinator(t, s, 10*time.Minute)
	cmstest.Seed(t, co, "a", 1)
	send(t, c, http.MethodPut, "/"+itemsIndex(sess)+"/_doc/not-an-item?refresh=true", `{"scriptVersion":"3.0","expiration":0}`)
	l, err := co.AcquireNext(t.Context(), "h", nil)
	if err != nil || l.ID.Index != "a" {
		t.Fatal(err)
	}
	var none *cms.NoneAvailable
	if _, err := co.AcquireNext(t.Context(), "h2", nil); !errors.As(err, &none) {
		t.Errorf("got %v", err)
	}
	if fresh, err := co.Event(t.Context(), "not-an-item", "foreign_document", ""); err != nil || fresh {
		t.Errorf("no event: %v %v", fresh, err)
	}
	raw := send(t, c, http.MethodGet, "/"+itemsIndex(sess)+"/_doc/not-an-item", "")
	if strings.Contains(raw, "leaseHolderId") {
		t.Errorf("it was leased: %s", raw)
	}
}

// TestALostAnswerIsReadBack loses the answer to each kind of write once.
func TestALostAnswerIsReadBack(t *testing.T) {
	c := connect(t, real)
	for _, mode := range []oscms.Mode{oscms.Scripts, oscms.CAS} {
		t.Run(string(mode), func(t *testing.T) {
			lost := map[string]int{}
			h := &hooked{next: c, hook: func(method, path string) (int, string, bool) {
				kind := method + strings.Split(path, "/")[len(strings.Split(path, "/"))-2]
				if path == "/_bulk" {
					kind = "bulk"
				}
				if (method != http.MethodPost && method != http.MethodPut) || strings.Contains(path, "_search") ||
					strings.Contains(path, "_refresh") || strings.Contains(path, "_aliases") || strings.Count(path, "/") < 2 && kind != "bulk" {
					return 0, "", false
				}
				lost[kind]++
				return 0, "", lost[kind]%2 == 1 // every other
			}}
			sess := freshSession(t, c)
			openStore(t, oscms.Config{Client: c, Session: sess, Mode: mode})
			broken := openStore(t, oscms.Config{Client: h, Session: sess, Mode: mode})
			co := cmstest.Coordinator(t, broken, 10*time.Minute)
			cmstest.Seed(t, co, "a", 2)
			for leases := 0; ; leases++ {
				l, err := co.AcquireNext(t.Context(), fmt.Sprintf("h%d", leases), nil)
				if errors.Is(err, cms.ErrAllDone) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				w := cms.Work{Counts: cms.Counts{Ordinals: 10}}
				if l.Start() < 20 {
					err = l.Handoff(t.Context(), l.Start()+10, w)
				} else {
					err = l.Complete(t.Context(), w)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			sum, err := cmstest.Sum(t.Context(), co)
			if err != nil || sum.Total.Items != 6 || sum.Total.Counts.Ordinals != 60 {
				t.Errorf("%+v %v", sum.Total, err)
			}
			if _, done, err := session.AuditsOf(co).Finish(t.Context()); err != nil || !done {
				t.Errorf("done=%v %v", done, err)
			}
			if len(lost) < 3 {
				t.Errorf("lost only %v", lost)
			}
		})
	}
}

// TestErrorsOfTheClusterAreNeverReadAsNoWork answers searches with errors.
func TestErrorsOfTheClusterAreNeverReadAsNoWork(t *testing.T) {
	c := connect(t, real)
	for _, tc := range []struct {
		status int
		answer string
		want   error
	}{
		{400, `{"error":{"type":"parsing_exception","reason":"x"},"status":400}`, fault.ErrRejected},
		{403, `{"error":{"type":"security_exception","reason":"no permissions"},"status":403}`, fault.ErrConfig},
		{404, `{"error":{"type":"index_not_found_exception","reason":"no such index"},"status":404}`, cms.ErrStoreGone},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			h := &hooked{next: c, hook: func(_, path string) (int, string, bool) {
				if strings.HasSuffix(path, "/_search") {
					return tc.status, tc.answer, false
				}
				return 0, "", false
			}}
			s := openStore(t, oscms.Config{Client: h, Session: freshSession(t, c)})
			co := cmstest.Coordinator(t, s, 10*time.Minute)
			if _, err := co.AcquireNext(t.Context(), "h", nil); !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("429 and 503 are asked again", func(t *testing.T) {
		asked := map[bool]int{}
		h := &hooked{next: c, hook: func(_, path string) (int, string, bool) {
			search, update := strings.HasSuffix(path, "/_search"), strings.Contains(path, "/_update/")
			if search || update {
				switch asked[search]++; asked[search] {
				case 1:
					return 429, `{"error":{"type":"cluster_block_exception","reason":"disk usage exceeded flood-stage watermark"},"status":429}`, false
				case 2:
					return 503, `{"error":{"type":"unavailable_shards_exception","reason":"primary shard is not active"},"status":503}`, false
				}
			}
			return 0, "", false
		}}
		s := openStore(t, oscms.Config{Client: h, Session: freshSession(t, c), Mode: oscms.Scripts})
		co := cmstest.Coordinator(t, s, 10*time.Minute)
		create, err := s.Create(t.Context(), []cms.Item{cms.NewItem(cmstest.ID("a", 0, 0), "c", 0)})
		if err != nil || create != 1 {
			t.Fatal(err)
		}
		l, err := co.AcquireNext(t.Context(), "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Complete(t.Context(), cms.Work{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRecordsAreReadableByPeople(t *testing.T) {
	c := connect(t, real)
	sess := freshSession(t, c)
	s := openStore(t, oscms.Config{Client: c, Session: sess})
	if _, err := s.Put(t.Context(), cms.Record{ID: "lock:x", Kind: "lock", Holder: "h", Expire: 1515527529288}); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Source map[string]any `json:"_source"`
	}
	if err := json.Unmarshal([]byte(send(t, c, http.MethodGet, "/"+controlIndex(sess)+"/_doc/lock:x", "")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Source["holder"] != "h" || doc.Source["expire"] != float64(1515527529288) {
		t.Errorf("%v", doc.Source)
	}
}

// TestStore_FormerRecordsDoNotBringTheMarkBack: a new session under the name of a former one has another mark.
func TestStore_FormerRecordsDoNotBringTheMarkBack(t *testing.T) {
	c := connect(t, real)
	sess := freshSession(t, c)
	begin := func() (*oscms.Store, string) {
		s := openStore(t, oscms.Config{Client: c, Session: sess})
		mark, err := session.IdentityOf(cmstest.Coordinator(t, s, time.Minute)).Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s, mark
	}
	_, former := begin()
	send(t, c, http.MethodPost, "/"+controlIndex(sess)+"/_refresh", "")
	var page struct {
		Hits struct {
			Hits []struct {
				ID     string          `json:"_id"`
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	if err := json.Unmarshal([]byte(send(t, c, http.MethodGet, "/"+controlIndex(sess)+"/_search", "")), &page); err != nil || len(page.Hits.Hits) == 0 {
		t.Fatalf("records: %+v %v", page, err)
	}
	for _, want := range [][]string{{itemsIndex(sess), controlIndex(sess)}, nil} {
		if dropped, err := oscms.Drop(t.Context(), c, sess); err != nil || !slices.Equal(dropped, want) {
			t.Fatalf("removed %q, want %q: %v", dropped, want, err)
		}
	}
	s, mark := begin()
	if mark == former {
		t.Fatalf("two sessions have the mark %q", mark)
	}
	for _, r := range page.Hits.Hits {
		send(t, c, http.MethodPut, "/"+controlIndex(sess)+"/_doc/"+r.ID, string(r.Source))
	}
	send(t, c, http.MethodPut, "/"+controlIndex(sess)+"/_doc/mark", fmt.Sprintf(`{"kind":"mark","body":{"token":%q}}`, former))
	if is, err := session.IdentityOf(cmstest.Coordinator(t, s, time.Minute)).Mark(t.Context()); err != nil || is != mark {
		t.Errorf("with the former records the mark is %q, %v, not %q", is, err, mark)
	}
}
