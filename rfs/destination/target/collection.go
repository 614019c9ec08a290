package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// Collection is the type of a collection of Amazon OpenSearch Serverless. This file alone describes the requests that collections
// answer and the limits of each type; docs/SERVERLESS.md lists the sources.
type Collection string

// The types of collections, and the value for a cluster.
const (
	NoCollection         Collection = ""
	SearchCollection     Collection = "search"
	TimeSeriesCollection Collection = "time series"
	VectorCollection     Collection = "vector search"
)

// ErrServerless means that a collection cannot be a source or coordinator. It is a fault.ErrConfig.
var ErrServerless = fmt.Errorf("a collection of OpenSearch Serverless can only be a target: it has no snapshots, and cannot keep the state of the work, which needs conditional writes (--coordinator-bucket, --coordinator-host or --coordinator-file names a place for it): %w", fault.ErrConfig)

// ErrNotAnswered means that a request was not sent because no collection answers it. It is a fault.ErrRejected.
var ErrNotAnswered = fmt.Errorf("collections of OpenSearch Serverless do not answer this: %w", fault.ErrRejected)

// Serverless reports whether the target is a collection: it has no nodes, no statistics, no data streams, no ingest pipelines, no
// policies, and manages shards, replicas and refreshes itself.
func (v Version) Serverless() bool { return v.Collection != NoCollection }

// ChoosesIDs reports whether the target generates the ids of documents and rejects the client's, so that a document that is sent again
// is duplicated.
func (v Version) ChoosesIDs() bool {
	return v.Collection == TimeSeriesCollection || v.Collection == VectorCollection
}

// CheckIDs returns a fault.ErrConfig if the target generates the ids of documents, unless that is permitted, and for a policy that compares
// ids then. It returns the consequence of a permitted target.
func (v Version) CheckIDs(permitted bool, existing bulk.Existing) (warning string, err error) {
	if !v.ChoosesIDs() {
		return "", nil
	}
	means := fmt.Sprintf("a collection of type %s gives documents ids of its own: a document that is sent again, because an answer was lost or a process died, is there twice", v.Collection)
	switch {
	case !permitted:
		return "", fmt.Errorf("%s; permit it (--allow-duplicates), or use a collection of type search, which keeps the ids: %w", means, fault.ErrConfig)
	case existing != "" && existing != bulk.Overwrite:
		return "", fmt.Errorf("--existing-documents %s compares ids, which a collection of type %s does not keep: leave it out: %w", existing, v.Collection, fault.ErrConfig)
	}
	return means + "; the summary counts such copies", nil
}

// ClusterOnly returns a fault.ErrConfig if the target is a collection, for work that is only possible with a cluster.
func (c Config) ClusterOnly(work string) error {
	if is, err := c.Serverless(); err != nil || !is {
		return err
	}
	return fmt.Errorf("target %s: %s cannot be used with a collection of OpenSearch Serverless; rfsd migrate and rfsd run send a snapshot to it: %w", secret.Text(c.URL), work, fault.ErrConfig)
}

// Uses are uses of a target in addition to sending documents to it.
type Uses struct {
	State   bool // it keeps the state of the work
	Compare bool
	Measure bool
}

// CheckUses returns a fault.ErrConfig if the target is a collection and is used for what collections cannot do. It sends no request.
func (c Config) CheckUses(u Uses) error {
	is, err := c.Serverless()
	switch {
	case err != nil || !is:
		return err
	case u.State:
		return ErrServerless
	case u.Compare:
		return c.ClusterOnly("comparisons (--verify)")
	case u.Measure:
		return c.ClusterOnly("measurements (leave them out with --trial-measure 0s)")
	}
	return nil
}

// Lag returns the time after which counts and searches include all accepted documents, if the target does not support refresh
// requests; 0 if Refresh makes them visible.
func (v Version) Lag() time.Duration {
	switch v.Collection {
	case SearchCollection, TimeSeriesCollection:
		return 30 * time.Second
	case VectorCollection:
		return time.Minute
	}
	return 0
}

// KeepsSetting reports whether indices of the target may be created with a setting, a name such as index.knn.
func (v Version) KeepsSetting(name string) bool {
	if !v.Serverless() {
		return true
	}
	for _, kept := range []string{"index.analysis", "index.similarity", "index.mapping", "index.knn"} {
		if name == kept || strings.HasPrefix(name, kept+".") {
			return true
		}
	}
	return false
}

// answered lists the requests that are sent to collections; * is the name of an index, alias or template. AWS supports more, which rfsd
// does not need.
var answered = []string{
	"HEAD *", "GET *", "PUT *", "DELETE *", // indices
	"GET */_mapping", "PUT */_mapping", "GET */_settings", "GET */_settings/*",
	"POST _bulk", "POST */_bulk", "GET _mget", "GET */_count",
	"POST _aliases", "GET _alias", "GET _alias/*", "GET */_alias/*",
	"GET _index_template", "GET _index_template/*", "PUT _index_template/*", "DELETE _index_template/*",
	"GET _component_template", "GET _component_template/*", "PUT _component_template/*", "DELETE _component_template/*",
}

// mayAsk returns ErrNotAnswered for a request that no collection answers. path is escaped and has no query.
func mayAsk(method, path string) error {
	got := strings.Split(method+" "+strings.TrimPrefix(path, "/"), "/")
	for _, call := range answered {
		if matches(strings.Split(call, "/"), got) {
			return nil
		}
	}
	return fmt.Errorf("%s %s: %w", method, path, ErrNotAnswered)
}

// matches reports whether a request matches an entry of answered, by path components. Names of indices do not start with _, and
// collections have no system indices, whose names start with a dot.
func matches(call, got []string) bool {
	if len(call) != len(got) {
		return false
	}
	for i, part := range call {
		fixed, isName := strings.CutSuffix(part, "*")
		name, begins := strings.CutPrefix(got[i], fixed)
		if !begins || !isName && name != "" || isName && (name == "" || name[0] == '_' || i == 0 && name[0] == '.') {
			return false
		}
	}
	return true
}

// probedIndex is the name in the request that reveals the type of a collection. No such index is ever created.
const probedIndex = "rfsd-collection-type"

// ImpossibleIndex is the body of an index that every collection rejects, since its vector has a negative dimension.
const ImpossibleIndex = `{"settings":{"index.knn":true},"mappings":{"properties":{"v":{"type":"knn_vector","dimension":-1}}}}`

// types are the error messages of collections for ImpossibleIndex.
var types = []struct {
	words string
	of    Collection
}{
	{"KNN features not supported on SEARCH collection type", SearchCollection},
	{"KNN features not supported on TIMESERIES collection type", TimeSeriesCollection},
	{"Dimension value must be greater than 0", VectorCollection},
}

// collection returns the type of the collection, which it requests once. Errors are fault.ErrConfig and fault.ErrUnavailable.
func (c *Client) collection(ctx context.Context) (Collection, error) {
	if is := c.kind.Load(); is != nil {
		return *is, nil
	}
	var made struct{ Acknowledged bool } // a page of a proxy is not that
	err := c.call(ctx, http.MethodPut, "/"+probedIndex, nil, []byte(ImpossibleIndex), &made)
	if err == nil {
		return "", fmt.Errorf("%s created the index %s, which no collection does: remove it, and check --target-aws-service: %w", c.who(), probedIndex, fault.ErrConfig)
	}
	for _, t := range types {
		if strings.Contains(err.Error(), t.words) {
			c.kind.Store(&t.of)
			return t.of, nil
		}
	}
	var answer *fault.StatusError
	switch {
	case !errors.As(err, &answer), errors.Is(err, fault.ErrUnavailable), answer.Status == http.StatusForbidden && answer.Remedy != checkPolicies:
		return "", err // it is not about the type
	case answer.Status == http.StatusForbidden:
		return "", fmt.Errorf("the type of the collection is in its refusal of the index %s, for which the data access policy has to permit aoss:CreateIndex: %w", probedIndex, err)
	}
	return "", fmt.Errorf("the type of the collection is not among those that rfsd knows (search, time series, vector search): %w", err)
}

// infoOfCollection returns the Version of a collection. Collections report no version; they are compatible with clients of
// OpenSearch 2.11. The address replaces the UUID of a cluster.
func (c *Client) infoOfCollection(ctx context.Context) (Version, error) {
	kind, err := c.collection(ctx)
	if err != nil {
		return Version{}, err
	}
	u, err := url.Parse(c.name)
	if err != nil {
		return Version{}, fmt.Errorf("%s: %w: %w", c.who(), err, fault.ErrConfig)
	}
	return Version{Distribution: "opensearch", Number: "Serverless (" + string(kind) + ")", Major: 2, Minor: 11, ClusterUUID: u.Host, Collection: kind}, nil
}

// Collections are eventually consistent: a request may reach a node that learns of a new index some seconds later.
const (
	indexKnown = time.Minute
	askAgain   = 250 * time.Millisecond
)

// awaitIndex blocks until the collection shows an index that it has created. Errors are fault.ErrUnavailable.
func (c *Client) awaitIndex(ctx context.Context, name string) error {
	for end := time.Now().Add(indexKnown); ; {
		there, err := c.IndexExists(ctx, name)
		if there || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s has created the index %s and does not show it after %v: %w", c.who(), name, indexKnown, fault.ErrUnavailable)
		}
		if err := wait.For(ctx, askAgain); err != nil {
			return err
		}
	}
}

var idField = []byte(`,"_id":`)

// appendWithoutIDs appends a bulk body of rfs/destination/bulk to dst, without the ids in its action lines.
// It returns fault.ErrUnsupported for a deletion, which needs an id.
func appendWithoutIDs(dst, body []byte) ([]byte, error) {
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		source, behind, found := bytes.Cut(rest, []byte{'\n'})
		at := bytes.Index(line, idField)
		if at < 0 || !found || !bytes.HasPrefix(line, []byte(`{"index":`)) {
			return dst, fmt.Errorf("the action %.100s: collections that choose ids take new documents only: %w", line, fault.ErrUnsupported)
		}
		var id string
		in := json.NewDecoder(bytes.NewReader(line[at+len(idField):]))
		if err := in.Decode(&id); err != nil {
			return dst, fmt.Errorf("action line: %w", err)
		}
		dst = append(append(dst, line[:at]...), line[at+len(idField)+int(in.InputOffset()):]...)
		dst = append(append(append(dst, '\n'), source...), '\n')
		body = behind
	}
	return dst, nil
}
