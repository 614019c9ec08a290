package metadata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/rules"
)

// Kind is a kind of cluster-wide object.
type Kind string

// Kinds that can be migrated.
const (
	LegacyTemplate    Kind = "template"
	ComponentTemplate Kind = "component-template"
	IndexTemplate     Kind = "index-template"
	Pipeline          Kind = "pipeline"
	Script            Kind = "script"
	Policy            Kind = "ilm-policy" // becomes an ISM policy
	StatePolicy       Kind = "ism-policy" // of an OpenSearch source
)

// Kinds that are listed only.
const (
	DataStream Kind = "data-stream"
	Setting    Kind = "cluster-setting"
	Other      Kind = "other"
)

// creationOrder lists the kinds so that an object is created after the objects it refers to.
var creationOrder = []Kind{Script, Pipeline, LegacyTemplate, ComponentTemplate, IndexTemplate, Policy, StatePolicy}

// Globals holds the cluster metadata of a snapshot: raw JSON by kind and name.
type Globals struct {
	Objects map[Kind]map[string]json.RawMessage
	// DataStreams are the backing indices of each data stream, oldest first.
	DataStreams map[string][]string
	// Others are parts of the metadata that cannot be migrated, with the reasons.
	Others []LeftOut
	// Indices are the names of all indices of the snapshot, since watches, users, transforms and
	// more are stored in indices. The caller of ParseGlobals sets it.
	Indices []string
	// Managed is the ISM policy that manages an index, by the UUID of the index.
	Managed map[string]string

	created int // major version of Elasticsearch that wrote the metadata, exact enough for the formats of dates
}

// Selection states which objects are migrated.
type Selection struct {
	// Templates, ComponentTemplates and IndexTemplates choose by name; nil chooses all.
	Templates, ComponentTemplates, IndexTemplates func(name string) bool
	Pipelines, Scripts, Policies                  bool
	// Attach adds, for each policy that rolls indices over, a policy for indices that the source has rolled over.
	Attach bool
	// Managed includes objects that the source created for itself (.monitoring, logs, ilm-history, …).
	Managed bool
	// Ordinary are the ordinary indices that the migration creates. A template that creates
	// data streams of their names would prevent that, and is left out.
	Ordinary []string
	// Streams are the data streams of the source whose documents are created in streams of the target.
	Streams []string
	// Rules are the user's own changes; nil: none.
	Rules *rules.Set
	// Without names the rules that are not applied (RuleNames).
	Without []string
}

// Global is one object to create.
type Global struct {
	Kind    Kind
	Name    string
	Body    json.RawMessage // of the request that creates it
	Changes []Change        // Change.Index is "<kind> <name>"

	// Later is the part of a policy that is added when the documents have arrived; nil: none.
	Later json.RawMessage

	// convert returns Body and Changes without features that the target lacks.
	convert func(*Unsupported) (json.RawMessage, []Change, error)
}

// Label returns "<kind> <name>".
func (g Global) Label() string { return label(g.Kind, g.Name) }

// ConvertFor returns Body and Changes without the features that the target reported as unsupported.
func (g Global) ConvertFor(u *Unsupported) (json.RawMessage, []Change, error) {
	if g.convert == nil {
		return g.Body, g.Changes, nil
	}
	return g.convert(u)
}

func label(k Kind, name string) string { return string(k) + " " + name }

// LeftOut is an object that is not migrated.
type LeftOut struct {
	Kind   Kind
	Name   string
	Reason string
}

// GlobalPlan lists the objects to create, in order, and the objects that are left out.
type GlobalPlan struct {
	Objects []Global
	Left    []LeftOut
}

// ParseGlobals parses the global metadata of a snapshot (snapshot.Snapshot.Global): the members of
// "meta-data", by section. It lists sections that cannot be migrated in Globals.Others. Errors are
// fault.ErrCorrupt.
func ParseGlobals(sections map[string]json.RawMessage) (Globals, error) {
	g := Globals{Objects: map[Kind]map[string]json.RawMessage{}, DataStreams: map[string][]string{}, created: writtenBy(sections)}
	for _, section := range keys(sections) {
		raw := sections[section]
		read, known := readers[section]
		switch {
		case slices.Contains(ownSections, section), isEmpty(raw):
			continue
		case !known:
			read = otherSection
		}
		if err := read(&g, section, raw); err != nil {
			return g, fmt.Errorf("global metadata, section %s: %w", section, err)
		}
	}
	return g, nil
}

// writtenBy returns the major version of Elasticsearch that determines the format of dates, by the sections: before Elasticsearch 2
// the cluster's UUID is "uuid"; from 7 on, and in OpenSearch, "cluster_coordination" exists.
func writtenBy(sections map[string]json.RawMessage) int {
	if _, ok := sections["cluster_coordination"]; ok {
		return 7
	}
	if _, ok := sections["cluster_uuid"]; ok {
		return 6
	}
	return 1
}

// ownSections belong to the cluster that wrote them and are not migrated.
var ownSections = []string{
	"version", "uuid", "cluster_uuid", "cluster_uuid_committed", "cluster_coordination", "index-graveyard", "licenses",
	"registered_snapshots", "reserved_state", "hashes_of_consistent_settings", "node_shutdown", "nodes_removed", "desired_nodes",
	"health", "feature_migration_results", "trial", "weighted_shard_routing", "decommissionedAttribute", "indices", "transport_versions",
	"lifecycle_operation",
}

// readers are the parsers of sections, by section.
var readers = map[string]func(*Globals, string, json.RawMessage) error{
	"templates":           func(g *Globals, _ string, raw json.RawMessage) error { return g.take(LegacyTemplate, raw, "") },
	"component_template":  func(g *Globals, s string, raw json.RawMessage) error { return g.take(ComponentTemplate, raw, s) },
	"index_template":      func(g *Globals, s string, raw json.RawMessage) error { return g.take(IndexTemplate, raw, s) },
	"stored_scripts":      func(g *Globals, _ string, raw json.RawMessage) error { return g.take(Script, raw, "") },
	"index_lifecycle":     policySection,
	"ingest":              pipelineSection,
	"data_stream":         dataStreamSection,
	"settings":            settingSection,
	"snapshot_lifecycle":  lifecycleSection,
	"persistent_tasks":    taskSection,
	"ilm_operation_mode":  func(*Globals, string, json.RawMessage) error { return nil },
	"data_stream_aliases": otherSection,
}

// take adds the objects of a section, by name. below is the member that contains them; "" for the section itself.
func (g *Globals) take(kind Kind, raw json.RawMessage, below string) error {
	all, err := byName(raw, below)
	if err == nil && len(all) > 0 {
		g.Objects[kind] = all
	}
	return err
}

func byName(raw json.RawMessage, below string) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, notAsExpected(err)
	}
	if below == "" {
		return all, nil
	}
	inner, ok := all[below]
	if !ok {
		return nil, nil
	}
	return byName(inner, "")
}

func notAsExpected(err error) error { return fault.Corrupt("", "", -1, "unexpected content: %w", err) }

func policySection(g *Globals, _ string, raw json.RawMessage) error {
	all, err := byName(raw, "policies")
	if err == nil && len(all) > 0 {
		g.Objects[Policy] = all
	}
	return err
}

func pipelineSection(g *Globals, _ string, raw json.RawMessage) error {
	var section struct {
		Pipeline []struct {
			ID     string
			Config json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &section); err != nil {
		return notAsExpected(err)
	}
	for _, p := range section.Pipeline {
		g.put(Pipeline, p.ID, p.Config)
	}
	return nil
}

func dataStreamSection(g *Globals, _ string, raw json.RawMessage) error {
	var section struct {
		Streams map[string]struct {
			Indices []struct {
				Name string `json:"index_name"`
			}
		} `json:"data_stream"`
		Aliases map[string]json.RawMessage `json:"data_stream_aliases"`
	}
	if err := json.Unmarshal(raw, &section); err != nil {
		return notAsExpected(err)
	}
	for name, s := range section.Streams {
		backing := make([]string, 0, len(s.Indices))
		for _, x := range s.Indices {
			backing = append(backing, x.Name)
		}
		g.DataStreams[name] = backing
	}
	for _, name := range keys(section.Aliases) {
		g.Others = append(g.Others, LeftOut{DataStream, name, "aliases of data streams are not migrated: set the alias on the target when the stream is there"})
	}
	return nil
}

// settingSection lists the persistent settings of the cluster as left out: they belong to its machines.
func settingSection(g *Globals, _ string, raw json.RawMessage) error {
	m, err := DecodeObject(raw)
	if err != nil {
		return err
	}
	flat := FlatSettings(m)
	for _, k := range keys(flat) {
		if !strings.HasPrefix(k, "archived.") {
			g.Others = append(g.Others, LeftOut{Setting, k, fmt.Sprintf("settings of the cluster are not migrated (%s): they were chosen for other machines", Brief(flat[k]))})
		}
	}
	return nil
}

func lifecycleSection(g *Globals, _ string, raw json.RawMessage) error {
	all, err := byName(raw, "policies")
	if err != nil {
		return err
	}
	for _, name := range keys(all) {
		g.Others = append(g.Others, LeftOut{Other, "snapshot_lifecycle " + name, "snapshot policies are not migrated, because repositories differ (rfsctl snapshot extract writes them to files for Snapshot Management)"})
	}
	return nil
}

// taskSection lists the tasks that users started. Internal tasks are ignored, since every cluster starts its own.
func taskSection(g *Globals, _ string, raw json.RawMessage) error {
	var section struct {
		Tasks []struct {
			ID   string
			Task map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &section); err != nil {
		return notAsExpected(err)
	}
	for _, t := range section.Tasks {
		for _, name := range keys(t.Task) {
			if strings.HasPrefix(name, "xpack/") || strings.HasPrefix(name, "data_frame/") {
				g.Others = append(g.Others, LeftOut{Other, name + " " + t.ID, "tasks of Elasticsearch's plugins have no equal on the target"})
			}
		}
	}
	return nil
}

// otherReasons holds the reasons why sections are not migrated.
var otherReasons = map[string]string{
	"repositories":    "repositories are not migrated: register those that the target needs",
	"ml":              "machine-learning jobs have no equal; see Anomaly Detection of OpenSearch",
	"watcher":         "watches are not migrated; see Alerting of OpenSearch",
	"enrich":          "enrich policies have no equal on the target",
	"enrich_policies": "enrich policies have no equal on the target",
	"ccr":             "auto-follow patterns are not migrated; see Cross-Cluster Replication of OpenSearch",
	"ccr_auto_follow": "auto-follow patterns are not migrated; see Cross-Cluster Replication of OpenSearch",
	"rollup":          "rollup jobs are not migrated; see Index Rollups of OpenSearch",
	"security":        "users and roles are not migrated; set them up in the target's security plugin",
	"search_pipeline": "search pipelines are not migrated",
	"role_mappings":   "users and roles are not migrated; set them up in the target's security plugin",
	"autoscaling":     "autoscaling policies have no equal on the target",
	"esql":            "ES|QL has no equal on the target",
	"logstash":        "pipelines of Logstash are not migrated",
}

// otherSection lists a section that is not migrated. An unknown section is reported as unknown.
func otherSection(g *Globals, section string, raw json.RawMessage) error {
	reason, ok := otherReasons[section]
	if !ok {
		reason = fmt.Sprintf("rfsd does not know this part of the cluster's metadata (%d bytes)", len(raw))
	}
	g.Others = append(g.Others, LeftOut{Other, section, reason})
	return nil
}

// isEmpty reports whether a section contains nothing but empty objects and lists, at any depth.
func isEmpty(raw json.RawMessage) bool {
	return !strings.ContainsFunc(string(raw), func(r rune) bool { return !strings.ContainsRune("{}[] \n\t\r", r) }) || string(raw) == "null"
}

// systemIndices contain cluster metadata that rfsd does not migrate.
var systemIndices = []struct{ prefix, what string }{
	{".watches", "watches are kept in this index; see Alerting of OpenSearch"},
	{".security", "users, roles and API keys are kept in this index; set them up in the target's security plugin"},
	{".opendistro_security", "users and roles are kept in this index (rfsctl snapshot extract writes them to files for review)"},
	{".transform-internal", "transforms are kept in this index; see Index Transforms of OpenSearch"},
	{".data-frame-internal", "transforms are kept in this index; see Index Transforms of OpenSearch"},
	{".ml-config", "machine-learning jobs are kept in this index; see Anomaly Detection of OpenSearch"},
	{".enrich-", "enrich policies are kept in this index and have no equal on the target"},
	{".kibana", "dashboards are kept in this index (rfsctl snapshot extract writes them to files that OpenSearch Dashboards imports)"},
	{".opensearch_dashboards", "dashboards are kept in this index (rfsctl snapshot extract writes them to files that OpenSearch Dashboards imports)"},
	{".fleet-", "Elastic Agent keeps its state in this index; it has no equal on the target"},
	{PolicyIndex, "ISM policies are documents of this index (--include policies reads them)"},
	{".opendistro-alerting-config", "monitors are kept in this index; read them from the source's Alerting API"},
	{".scripts", "scripts of Elasticsearch before 5 are documents of this index (--include scripts reads them)"},
}

// kept returns the cluster metadata that the source stores in indices.
func (g Globals) kept() []LeftOut {
	var left []LeftOut
	for _, name := range g.Indices {
		for _, s := range systemIndices {
			if strings.HasPrefix(name, s.prefix) {
				left = append(left, LeftOut{Other, "index " + name, s.what})
				break
			}
		}
	}
	return left
}
