package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Sections of the metadata of a cluster about snapshot lifecycle management (SLM).
const (
	lifecycleSection = "snapshot_lifecycle"
	operationSection = "lifecycle_operation" // whether it is running, since Elasticsearch 8.7
)

// cleaningSetting is the setting that schedules the deletion of snapshots by SLM, cleaningDefault its default.
const (
	cleaningSetting = "slm.retention_schedule"
	cleaningDefault = "0 30 1 * * ?"
)

// lifecycles is the section of the metadata with the policies of SLM.
type lifecycles struct {
	Policies map[string]struct {
		Policy *lifecycle `json:"policy"`
	} `json:"policies"`
	Mode string `json:"operation_mode"`
}

// lifecycle is a policy of SLM.
type lifecycle struct {
	Name       string          `json:"name"` // of snapshots
	Schedule   string          `json:"schedule"`
	Repository string          `json:"repository"`
	Config     json.RawMessage `json:"config"`
	Retention  *struct {
		Age string `json:"expire_after"`
		Min int    `json:"min_count"`
		Max int    `json:"max_count"`
	} `json:"retention"`
}

// management is a policy of Snapshot Management, in the format of the request that creates it.
type management struct {
	Description string         `json:"description"`
	Enabled     bool           `json:"enabled"`
	Creation    workflow       `json:"creation"`
	Deletion    *workflow      `json:"deletion,omitempty"`
	Config      map[string]any `json:"snapshot_config"`
}

// workflow is the schedule on which a policy takes or deletes snapshots.
type workflow struct {
	Schedule struct {
		Cron struct {
			Expression string `json:"expression"`
			Timezone   string `json:"timezone"`
		} `json:"cron"`
	} `json:"schedule"`
	Condition *condition `json:"condition,omitempty"`
}

// condition states which snapshots are deleted.
type condition struct {
	Age string `json:"max_age,omitempty"`
	Min int    `json:"min_count,omitempty"`
	Max int    `json:"max_count,omitempty"`
}

func at(expression string) (w workflow) {
	w.Schedule.Cron.Expression, w.Schedule.Cron.Timezone = expression, "UTC"
	return w
}

// policies writes the snapshot policies in the format of Snapshot Management.
func (x *extractor) policies(ctx context.Context) error {
	sections, err := x.snap.Global(ctx)
	if err == nil {
		err = x.addLifecycles(sections)
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(x.snap.Indices, func(i snapshot.IndexRef) bool { return i.Name == metadata.PolicyIndex }) {
		return nil
	}
	index, err := x.snap.Index(ctx, metadata.PolicyIndex)
	if err == nil {
		err = creation.ReadIndex(ctx, x.snap, index, x.addManagement)
	}
	if err != nil {
		return fmt.Errorf("index %s: %w", metadata.PolicyIndex, err)
	}
	return nil
}

// addLifecycles writes the policies of SLM.
func (x *extractor) addLifecycles(sections map[string]json.RawMessage) error {
	var all lifecycles
	if err := decode(sections, lifecycleSection, &all); err != nil || len(all.Policies) == 0 {
		return err
	}
	var operation struct {
		Mode string `json:"slm_operation_mode"`
	}
	if err := decode(sections, operationSection, &operation); err != nil {
		return err
	}
	cleaning := cleaningDefault
	if len(sections["settings"]) > 0 {
		settings, err := metadata.DecodeObject(sections["settings"])
		if err != nil {
			return fmt.Errorf("global metadata, section settings: %w", err)
		}
		if is := metadata.FlatSettings(settings)[cleaningSetting]; is != "" {
			cleaning = is
		}
	}
	runs := !stopped(all.Mode) && !stopped(operation.Mode)
	for _, id := range slices.Sorted(maps.Keys(all.Policies)) {
		in := all.Policies[id].Policy
		if in == nil {
			return fmt.Errorf("global metadata, section %s: policy %.100q: %w", lifecycleSection, id, fault.Corrupt("", "", -1, "it has no content"))
		}
		if err := x.addLifecycle(id, in, cleaning, runs); err != nil {
			return err
		}
	}
	return nil
}

func stopped(mode string) bool { return mode == "STOPPED" || mode == "STOPPING" }

// decode decodes a section of the cluster's metadata into v.
func decode(sections map[string]json.RawMessage, name string, v any) error {
	if len(sections[name]) == 0 {
		return nil
	}
	if err := json.Unmarshal(sections[name], v); err != nil {
		return fmt.Errorf("global metadata, section %s: %w", name, fault.Corrupt("", "", -1, "unexpected content: %w", err))
	}
	return nil
}

// addLifecycle converts and writes one policy of SLM.
func (x *extractor) addLifecycle(id string, in *lifecycle, cleaning string, runs bool) error {
	note := x.noted(id)
	expression, changed, why := cronOf(in.Schedule)
	if why != "" {
		note("left out: %s", why)
		return nil
	}
	if changed != "" {
		note("%s", changed)
	}
	name := strings.ReplaceAll(strings.ToLower(id), "#", "-")
	if name != id {
		note("its name becomes %s: names of Snapshot Management have no capitals and no #", name)
	}
	out := management{Description: "converted from the SLM policy " + id, Enabled: runs, Creation: at(expression), Config: map[string]any{}}
	if !runs {
		note("it is written as disabled, because SLM was stopped")
	}
	if len(in.Config) > 0 {
		config, err := metadata.DecodeObject(in.Config)
		if err != nil {
			return fmt.Errorf("global metadata, section %s: policy %.100q: %w", lifecycleSection, id, err)
		}
		out.Config = x.config(config, note)
	}
	out.Config["repository"] = in.Repository
	format, zone := dateFormat(in.Name)
	if format != "" {
		out.Config["date_format"] = format
	}
	if zone != "" {
		out.Config["date_format_timezone"] = zone
	}
	note("its snapshots are named %s-DATE-TEXT, not %.200s", name, in.Name)
	out.Deletion = deletion(in, cleaning, note)
	return x.writePolicy(id, name, out)
}

// configKeys are the snapshot options that both have and that Snapshot Management passes on.
var configKeys = []string{"indices", "ignore_unavailable", "include_global_state", "partial", "metadata", "expand_wildcards", "allow_no_indices"}

// config returns the snapshot options of a policy, with indices renamed as on the target.
func (x *extractor) config(in map[string]any, note func(string, ...any)) map[string]any {
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(in)) {
		switch {
		case in[k] == nil:
		case slices.Contains(configKeys, k):
			out[k] = in[k]
		default:
			note("%.100s is left out: snapshots of OpenSearch have no such option: %s", k, metadata.Brief(in[k]))
		}
	}
	x.renameConfig(out, note)
	return out
}

// renameConfig renames the indices in the snapshot options of a policy.
func (x *extractor) renameConfig(config map[string]any, note func(string, ...any)) {
	rename := func(text string) string {
		is, left := x.titles.list(text)
		for _, name := range left {
			note("index pattern %.100s: %s", name, notRenamed)
		}
		return is
	}
	switch names := config["indices"].(type) {
	case string:
		config["indices"] = rename(names)
	case []any:
		var out []string
		for _, name := range names {
			out = append(out, rename(metadata.Text(name)))
		}
		config["indices"] = strings.Join(out, ",")
	}
}

// dateMath matches a date in the snapshot name of an SLM policy: an expression, a format and a time zone.
var dateMath = regexp.MustCompile(`\{[^{}]*(?:\{([^{}|]*)(?:\|([^{}]*))?\})?\}`)

// dateFormat returns the format and the time zone of the date in a snapshot name; format is "" without a date, zone is "" for UTC.
func dateFormat(name string) (format, zone string) {
	m := dateMath.FindStringSubmatch(name)
	if m == nil {
		return "", ""
	}
	if m[1] == "" {
		return "yyyy.MM.dd", m[2]
	}
	return m[1], m[2]
}

// deletion converts the retention of an SLM policy; nil if it deletes no snapshots.
func deletion(in *lifecycle, cleaning string, note func(string, ...any)) *workflow {
	r := in.Retention
	if r == nil {
		return nil
	}
	if r.Age == "" && r.Max == 0 {
		note("min_count %d is left out: without expire_after and max_count nothing expires", r.Min)
		return nil
	}
	c := condition{Age: r.Age, Min: max(r.Min, 1), Max: r.Max}
	if r.Min == 0 {
		note("one snapshot is kept although it expires: min_count of Snapshot Management is at least 1")
	}
	if c.Max > 0 && c.Max <= c.Min {
		c.Max = c.Min + 1
		note("max_count %d becomes %d: it has to be more than min_count", r.Max, c.Max)
	}
	expression, changed, why := cronOf(cleaning)
	if why != "" {
		expression, changed = "30 1 * * *", "snapshots are deleted at 01:30 UTC: "+why+" ("+cleaningSetting+")"
	}
	if changed != "" {
		note("%s", changed)
	}
	w := at(expression)
	w.Condition = &c
	return &w
}

// managementSuffix is the suffix of the document id of a Snapshot Management policy.
const managementSuffix = "-sm-policy"

// managementKeys are the properties of a stored policy that a request accepts.
var managementKeys = []string{"description", "enabled", "creation", "deletion", "snapshot_config", "notification"}

// addManagement writes the Snapshot Management policy that a document holds, if any.
func (x *extractor) addManagement(d *doc.Document) error {
	var stored struct {
		Policy json.RawMessage `json:"sm_policy"`
	}
	err := json.Unmarshal(d.Source, &stored)
	if err == nil && len(stored.Policy) == 0 {
		return nil
	}
	var in map[string]any
	if err == nil {
		in, err = metadata.DecodeObject(stored.Policy)
	}
	if err != nil {
		return fmt.Errorf("document %.100q: %w", d.ID, fault.Corrupt("", "", -1, "unexpected content: %w", err))
	}
	id := strings.TrimSuffix(string(d.ID), managementSuffix)
	note := x.noted(id)
	out := map[string]any{}
	for _, k := range managementKeys {
		if in[k] != nil {
			out[k] = in[k]
		}
	}
	if config, ok := out["snapshot_config"].(map[string]any); ok {
		x.renameConfig(config, note)
	}
	if out["creation"] == nil {
		note("it only deletes snapshots, which takes OpenSearch 3.3 or later")
	}
	if w, ok := out["deletion"].(map[string]any); ok && w["snapshot_pattern"] != nil {
		note("snapshot_pattern takes OpenSearch 3.3 or later: also snapshots of others with such names are deleted")
	}
	if out["notification"] != nil {
		note("it notifies a channel, which the target has to have")
	}
	return x.writePolicy(id, id, out)
}

// noted returns a function that records a difference of a policy.
func (x *extractor) noted(id string) func(format string, args ...any) {
	return func(format string, args ...any) {
		x.leave(fmt.Sprintf("snapshot policy %.100s", id), fmt.Sprintf(format, args...))
	}
}

// unfitPolicy matches characters that policy names may have and file names should not.
var unfitPolicy = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// writePolicy writes the file of a policy.
func (x *extractor) writePolicy(id, name string, policy any) error {
	file := unfitPolicy.ReplaceAllString(name, "-")
	file = "snapshot-policy-" + file[:min(len(file), 200)] + ".json"
	if x.objects[file] > 0 {
		x.noted(id)("left out: the file of another policy has its name, %s", file)
		return nil
	}
	text, err := json.MarshalIndent(policy, "", "  ")
	if err != nil {
		return fmt.Errorf("snapshot policy %.100q: %w", id, err)
	}
	w, err := x.file(file)
	if err != nil {
		return err
	}
	x.requests[file] = "POST _plugins/_sm/policies/" + url.PathEscape(name)
	_, err = w.Write(append(text, '\n'))
	return err
}
