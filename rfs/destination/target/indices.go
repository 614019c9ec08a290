package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
)

// Version is the product and version of the target.
type Version struct {
	Distribution string // opensearch or elasticsearch
	Number       string // 2.19.4
	Major, Minor int
	ClusterUUID  string // "" if the cluster reports none
	Collection   Collection
}

// MappingTypes reports whether indices may have mapping types, which OpenSearch 2 and Elasticsearch 8 removed.
func (v Version) MappingTypes() bool {
	if v.Distribution == "opensearch" {
		return v.Major < 2
	}
	return v.Major < 8
}

// tested are the versions of targets that the tests write to.
const tested = "OpenSearch 2.19.4 and 3.8.0"

// Untested returns a warning about a target that is not OpenSearch; "" for OpenSearch.
func (v Version) Untested() string {
	if v.Distribution == "opensearch" {
		return ""
	}
	return fmt.Sprintf("the target is %s %s, with which rfsd is not tested: settings, mappings and templates are converted for OpenSearch, and the target may refuse them; tested targets are %s",
		v.Distribution, v.Number, tested)
}

// noUUID is the UUID that a node without a cluster state reports.
const noUUID = "_na_"

// Info returns the version of the target. It recognizes OpenSearch even if that reports the version 7.10.2
// (compatibility.override_main_response_version).
func (c *Client) Info(ctx context.Context) (Version, error) {
	if c.serverless {
		return c.infoOfCollection(ctx)
	}
	var info struct {
		Version     struct{ Distribution, Number string }
		Tagline     string
		ClusterUUID string `json:"cluster_uuid"`
	}
	if err := c.get(ctx, "/", nil, &info); err != nil {
		if fault.HasStatus(err, http.StatusNotFound) {
			return Version{}, fmt.Errorf("%s does not answer GET / (404): check its address and path; a collection of OpenSearch Serverless under another name than its own needs --target-aws-service aoss: %w", c.who(), fault.ErrConfig)
		}
		return Version{}, err
	}
	v := Version{Distribution: info.Version.Distribution, Number: info.Version.Number}
	if info.ClusterUUID != noUUID {
		v.ClusterUUID = info.ClusterUUID
	}
	if v.Distribution == "" && strings.Contains(info.Tagline, "OpenSearch") {
		v.Distribution = "opensearch"
		var nodes struct {
			Nodes map[string]struct{ Version string }
		}
		if err := c.get(ctx, "/_nodes/_local", url.Values{"filter_path": {"nodes.*.version"}}, &nodes); err != nil {
			return Version{}, err
		}
		for _, n := range nodes.Nodes {
			v.Number = n.Version
		}
	}
	if v.Distribution == "" {
		v.Distribution = "elasticsearch"
	}
	numbers := strings.SplitN(v.Number, ".", 3)
	var err, err2 error
	if len(numbers) >= 2 {
		v.Major, err = strconv.Atoi(numbers[0])
		v.Minor, err2 = strconv.Atoi(numbers[1])
	}
	if len(numbers) < 2 || err != nil || err2 != nil {
		return Version{}, fmt.Errorf("%s does not answer as an OpenSearch: its version is %q; check --%s-host: %w", c.who(), v.Number, c.conf.Role, fault.ErrConfig)
	}
	return v, nil
}

// MaxBody returns the largest request body that every node accepts, in bytes; 0 if the target does not report it.
// Proxies in front of the target may accept less.
func (c *Client) MaxBody(ctx context.Context) (int64, error) {
	if c.serverless {
		return 0, nil
	}
	var nodes struct {
		Nodes map[string]struct {
			HTTP struct {
				Max int64 `json:"max_content_length_in_bytes"`
			} `json:"http"`
		} `json:"nodes"`
	}
	if err := c.get(ctx, "/_nodes/http", url.Values{"filter_path": {"nodes.*.http.max_content_length_in_bytes"}}, &nodes); err != nil {
		return 0, err
	}
	var least int64
	for _, n := range nodes.Nodes {
		if m := n.HTTP.Max; m > 0 && (least == 0 || m < least) {
			least = m
		}
	}
	return least, nil
}

// IndexExists reports whether an index, alias or data stream has the name.
func (c *Client) IndexExists(ctx context.Context, name string) (bool, error) {
	err := c.call(ctx, http.MethodHead, "/"+url.PathEscape(name), nil, nil, nil)
	if fault.HasStatus(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// CreateIndex creates an index. body is {"settings":…,"mappings":…,"aliases":…}. If an
// index of that name exists, the error is a *fault.StatusError of type
// resource_already_exists_exception.
func (c *Client) CreateIndex(ctx context.Context, name string, body []byte) error {
	err := c.call(ctx, http.MethodPut, "/"+url.PathEscape(name), nil, body, nil)
	if err == nil && c.serverless {
		err = c.awaitIndex(ctx, name)
	}
	return err
}

// CreateTypedIndex creates an index with a mapping type, which OpenSearch 1 and Elasticsearch 7 still accept.
// The mapping in body, which has the form for CreateIndex, becomes the mapping of typ.
func (c *Client) CreateTypedIndex(ctx context.Context, name, typ string, body []byte) error {
	var parts map[string]json.RawMessage
	err := json.Unmarshal(body, &parts)
	if mapping, ok := parts["mappings"]; ok && err == nil {
		if parts["mappings"], err = json.Marshal(map[string]json.RawMessage{typ: mapping}); err == nil {
			body, err = json.Marshal(parts)
		}
	}
	if err != nil {
		return fmt.Errorf("index %s: body of its creation: %w", name, err)
	}
	return c.call(ctx, http.MethodPut, "/"+url.PathEscape(name), url.Values{"include_type_name": {"true"}}, body, nil)
}

// IsExists reports whether an index was not created because its name is taken.
func IsExists(err error) bool {
	var e *fault.StatusError
	return errors.As(err, &e) && (e.Type == "resource_already_exists_exception" || e.Type == "index_already_exists_exception")
}

// MaxID is the maximum length of a document id in Elasticsearch since 5.0 and OpenSearch, in bytes of UTF-8 (IndexRequest.validate).
const MaxID = 512

// Index is an index of the target.
type Index struct {
	Name     string
	UUID     string
	Settings map[string]string // flat, every key starts with "index."; lists are JSON
	Mappings json.RawMessage
	Aliases  json.RawMessage
}

// GetIndex returns the index with a name, or all indices of an alias. If the name does not exist, it returns an error.
func (c *Client) GetIndex(ctx context.Context, name string) ([]Index, error) {
	var answer map[string]struct {
		Settings map[string]json.RawMessage
		Mappings json.RawMessage
		Aliases  json.RawMessage
	}
	if err := c.get(ctx, "/"+url.PathEscape(name), url.Values{"flat_settings": {"true"}}, &answer); err != nil {
		return nil, err
	}
	all := make([]Index, 0, len(answer))
	for name, a := range answer {
		x := Index{Name: name, Settings: make(map[string]string, len(a.Settings)), Mappings: a.Mappings, Aliases: a.Aliases}
		for k, v := range a.Settings {
			x.Settings[k] = plainText(v)
		}
		x.UUID = x.Settings["index.uuid"]
		all = append(all, x)
	}
	return all, nil
}

// plainText returns the text of a string, and other values as JSON.
func plainText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// FinalPipelines returns the final ingest pipelines by index; bulk requests
// cannot switch them off. It ignores names that do not exist.
func (c *Client) FinalPipelines(ctx context.Context, indices []string) (map[string]string, error) {
	found, err := c.setting(ctx, indices, "index.final_pipeline")
	maps.DeleteFunc(found, func(_, p string) bool { return p == "" || p == "_none" })
	return found, err
}

// IndexUUIDs returns the UUIDs of the existing indices, by the names of indices, not of aliases.
func (c *Client) IndexUUIDs(ctx context.Context, names []string) (map[string]string, error) {
	return c.setting(ctx, names, "index.uuid")
}

// setting returns a setting of the existing indices, by index.
func (c *Client) setting(ctx context.Context, indices []string, key string) (map[string]string, error) {
	found := map[string]string{}
	query := url.Values{"flat_settings": {"true"}, "ignore_unavailable": {"true"}, "allow_no_indices": {"true"}}
	for _, path := range rest.InParts(indices) {
		var answer map[string]struct{ Settings map[string]json.RawMessage }
		if err := c.get(ctx, path+"/_settings/"+key, query, &answer); err != nil {
			return found, err
		}
		for name, a := range answer {
			found[name] = plainText(a.Settings[key])
		}
	}
	return found, nil
}

// Refresh makes all accepted documents visible to Count and searches. It does nothing for collections (Version.Lag).
func (c *Client) Refresh(ctx context.Context, index string) error {
	if c.serverless {
		return nil
	}
	return c.call(ctx, http.MethodPost, "/"+url.PathEscape(index)+"/_refresh", nil, nil, nil)
}

// Count returns the number of visible root documents.
func (c *Client) Count(ctx context.Context, index string) (int64, error) {
	var answer struct {
		Count  *int64
		Shards struct{ Failed int } `json:"_shards"`
	}
	if err := c.get(ctx, "/"+url.PathEscape(index)+"/_count", nil, &answer); err != nil {
		return 0, err
	}
	if answer.Count == nil || answer.Shards.Failed > 0 {
		return 0, fmt.Errorf("count of %s: %d shards did not answer: %w", index, answer.Shards.Failed, fault.ErrUnavailable)
	}
	return *answer.Count, nil
}

// CountLucene returns the number of visible Lucene documents of the primaries, including nested ones.
func (c *Client) CountLucene(ctx context.Context, index string) (int64, error) {
	var answer struct {
		Shards struct{ Failed int } `json:"_shards"`
		All    struct {
			Primaries struct {
				Docs struct{ Count *int64 }
			}
		} `json:"_all"`
	}
	if err := c.get(ctx, "/"+url.PathEscape(index)+"/_stats/docs", nil, &answer); err != nil {
		return 0, err
	}
	if answer.All.Primaries.Docs.Count == nil || answer.Shards.Failed > 0 {
		return 0, fmt.Errorf("documents of %s: %d shards did not answer: %w", index, answer.Shards.Failed, fault.ErrUnavailable)
	}
	return *answer.All.Primaries.Docs.Count, nil
}

// Operations counts the operations of the primary shards of an index.
type Operations struct {
	// Executed is the number of used sequence numbers: one for each document that was written or deleted, one for each that the
	// engine rejected while writing it, and the numbers that a shard filled after it was lost or moved.
	Executed int64
	// Deletes is the number of deletions since each primary shard was last started or moved.
	Deletes int64
}

// Operations returns the operations of the primary shards of an index. It returns fault.ErrRejected if the target does not
// report them, and fault.ErrUnavailable if a shard does not answer.
func (c *Client) Operations(ctx context.Context, index string) (sum Operations, err error) {
	var answer struct {
		Shards struct {
			Failed int `json:"failed"`
		} `json:"_shards"`
		Indices map[string]struct {
			Shards map[string][]struct {
				Routing  struct{ Primary bool } `json:"routing"`
				Indexing struct {
					Deletes int64 `json:"delete_total"`
				} `json:"indexing"`
				Seq *struct {
					Max int64 `json:"max_seq_no"`
				} `json:"seq_no"`
			} `json:"shards"`
		} `json:"indices"`
	}
	query := url.Values{"level": {"shards"}, "filter_path": {"_shards.failed,indices.*.shards.*.routing.primary,indices.*.shards.*.seq_no,indices.*.shards.*.indexing.delete_total"}}
	if err := c.get(ctx, "/"+url.PathEscape(index)+"/_stats/docs,indexing", query, &answer); err != nil {
		return sum, err
	}
	if answer.Shards.Failed > 0 {
		return sum, fmt.Errorf("operations of %s: %d shards did not answer: %w", index, answer.Shards.Failed, fault.ErrUnavailable)
	}
	shards := 0
	for name, x := range answer.Indices {
		for shard, copies := range x.Shards {
			known := false
			for _, p := range copies {
				if p.Routing.Primary && p.Seq != nil {
					sum.Executed, sum.Deletes, known = sum.Executed+p.Seq.Max+1, sum.Deletes+p.Indexing.Deletes, true
				}
			}
			if !known {
				return sum, fmt.Errorf("the target reports no sequence number of shard %s of %s: %w", shard, name, fault.ErrRejected)
			}
			shards++
		}
	}
	if shards == 0 {
		return sum, fmt.Errorf("the target reports no sequence numbers of %s: %w", index, fault.ErrRejected)
	}
	return sum, nil
}

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.call(ctx, http.MethodGet, path, query, nil, out)
}

// call sends a request, checks its status and decodes the answer into out unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body []byte, out any) error {
	status, answer, err := c.Do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	name := method + " " + path
	if err := c.classifyError(name, status, answer); err != nil || out == nil {
		return err
	}
	return fault.Decode(name, status, answer, out)
}

// IndexUUID returns the UUID of the index behind a name. It returns fs.ErrNotExist if the index does not exist,
// and fault.ErrConfig if the name is an alias that cannot receive documents; see UnfitAliases.
func (c *Client) IndexUUID(ctx context.Context, name string) (string, error) {
	found, err := c.GetIndex(ctx, name)
	switch {
	case err != nil && !fault.HasStatus(err, http.StatusNotFound):
		return "", err
	case len(found) == 0:
		return "", fmt.Errorf("index %s: %w", name, fs.ErrNotExist)
	}
	behind := map[string]json.RawMessage{}
	for _, x := range found {
		var all map[string]json.RawMessage
		if len(x.Aliases) > 0 && json.Unmarshal(x.Aliases, &all) != nil {
			return "", fmt.Errorf("aliases of %s: %w", x.Name, fault.ErrUnavailable)
		}
		behind[x.Name] = all[name]
	}
	if why := unfit(name, behind); why != "" {
		return "", fmt.Errorf("%s: %w", why, fault.ErrConfig)
	}
	return found[0].UUID, nil
}
