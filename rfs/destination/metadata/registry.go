package metadata

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Rule describes one rule.
type Rule struct {
	Name string // also in Change.Rule
	Does string // one line
	// Loses means that searches may find less, or something else, than at the source. For rules that
	// depend on the target or the field, Change.Loses reports it for each change.
	Loses bool
	// Report marks a rule that cannot be switched off, because it only reports an unavoidable change.
	Report bool
}

// registry lists every rule, first the rules that can be switched off. docs/RULES.md is generated from it.
var registry = []Rule{
	{Name: "default-mapping", Does: "`_default_` is left out of indices, whose types have it already, and becomes part of the mapping of templates"},
	{Name: "string-to-text", Does: "`string` is `text` when it was analyzed and `keyword` when it was not (`index: not_analyzed`, `index: no`)"},
	{Name: "multi-field", Does: "the type `multi_field` of Elasticsearch 1 is a field with `fields`"},
	{Name: "all-field", Does: "`_all`, and a default field for queries that names it, are dropped; queries without a field search all fields", Loses: true},
	{Name: "timestamp-field", Does: "`_timestamp` and `_ttl` are dropped: documents do not hold their values, and nothing expires", Loses: true},
	{Name: "parent-field", Does: "`_parent` is dropped: a join field would change documents; `has_child` and `has_parent` find nothing, routing stays; `--parent-join` makes one", Loses: true},
	{Name: "include-in-all", Does: "`include_in_all` is dropped, since `_all` does not exist"},
	{Name: "norms", Does: "`omit_norms` and `norms: {enabled, loading}` are `norms: true` or `false`"},
	{Name: "index-options", Does: "`index_options` is dropped where only text has it, and `omit_term_freq_and_positions` becomes one"},
	{Name: "boolean-option", Does: "words for true and false (`yes`, `off`, `\"true\"`, `not_analyzed`) are booleans"},
	{Name: "old-option", Does: "options that steered how old versions built an index (`precision_step`, `doc_values_format`, `lat_lon`, …) are dropped"},
	{Name: "field-boost", Does: "a `boost` in the mapping is dropped: it has to be in queries", Loses: true},
	{Name: "geo-shape", Does: "the options of prefix trees (`tree`, `precision`, `strategy`, …) are dropped from shapes, which are exact now"},
	{Name: "dynamic-runtime", Does: "`dynamic: runtime` is `dynamic: true`"},
	{Name: "dynamic-templates", Does: "templates for several types are split into one for each; mappings without a type get the intended one"},
	{Name: "runtime-fields", Does: "runtime fields are dropped: OpenSearch has derived fields, whose scripts and results are others", Loses: true},
	{Name: "script-field", Does: "`script` and `on_script_error` of a field are dropped: its values are computed, and in no document", Loses: true},
	{Name: "time-series", Does: "`time_series_dimension` and `time_series_metric` are dropped; the field stays"},
	{Name: "flattened", Does: "`flattened` is `flat_object` since OpenSearch 2.7, else an object that is not indexed", Loses: true},
	{Name: "wildcard", Does: "`wildcard` is `keyword` before OpenSearch 2.15"},
	{Name: "constant-keyword", Does: "`constant_keyword` without a value, and before OpenSearch 2.14 any, is `keyword`", Loses: true},
	{Name: "match-only-text", Does: "`match_only_text` is `text` before OpenSearch 2.12; `pattern_text` and `annotated_text` are `text`"},
	{Name: "unsigned-long", Does: "`unsigned_long` is `double` before OpenSearch 2.8, which is exact up to 2^53 only", Loses: true},
	{Name: "version-type", Does: "`version` is `keyword`: equal versions are found, ranges and order follow the text", Loses: true},
	{Name: "histogram", Does: "`histogram` is an object of its values and counts; `exponential_histogram` and `tdigest` are objects that are not indexed", Loses: true},
	{Name: "aggregate-metric", Does: "`aggregate_metric_double` is an object of `double` fields, one for each metric", Loses: true},
	{Name: "dense-vector", Does: "`dense_vector` is `knn_vector` with the same space where the target has the k-NN plugin, else an object that is not indexed", Loses: true},
	{Name: "knn-engine", Does: "`knn_vector` of the engine nmslib, and of settings instead of a method, is of faiss since OpenSearch 3, and in collections of OpenSearch Serverless, also of lucene"},
	{Name: "semantic-text", Does: "`semantic_text` is an object that is not indexed: its model is not on the target", Loses: true},
	{Name: "sparse-vector", Does: "`sparse_vector` and `rank_vectors` are objects that are not indexed", Loses: true},
	{Name: "elastic-type", Does: "any other type that the target lacks is the nearest one, else an object that is not indexed", Loses: true},
	{Name: "date-format", Does: "patterns of Joda (before Elasticsearch 7) are in the letters of java.time, and names in their only spelling"},
	{Name: "legacy-similarity", Does: "similarity `classic` (`default` of Elasticsearch 1 and 2) is BM25: the same documents are found, scores are others", Loses: true},
	{Name: "dynamic-setting", Does: "the setting `index.mapper.dynamic`, which was about new mapping types, is dropped"},
	{Name: "codec", Does: "codecs that no OpenSearch has are dropped; codecs of plugins are offered"},
	{Name: "analysis-name", Does: "analysis components have their present names (`nGram` is `ngram`, `delimited_payload_filter` is `delimited_payload`)"},
	{Name: "standard-filter", Does: "the token filter `standard`, which did nothing, is dropped"},
	{Name: "gram-limit", Does: "limits on the sizes of ngrams and shingles are raised to what the index uses"},
	{Name: "logsdb", Does: "the mode `logsdb` ignores malformed values, which the target expresses by a setting"},
	{Name: "malformed-boolean", Does: "`ignore_malformed` of `boolean` fields, which they cannot have on the target, is the setting of the index; other fields that can have it keep what they had"},
	{Name: "default-index-analyzer", Does: "the analyzer `default_index` is `default`"},
	{Name: "alias-option", Does: "options of aliases that the target does not know are dropped"},

	{Name: "type-union", Does: "types of one index differ about a field: the first counts", Loses: true, Report: true},
	{Name: "mapping-types", Does: "mapping types are removed: the mapping of an index holds the fields of all its types", Report: true},
	{Name: "parent-join", Does: "`_parent` is a join field, as `--parent-join` asks: relations, ids and routing are reported", Report: true},
	{Name: "root-field", Does: "a member of the mapping that the target does not know is dropped", Loses: true, Report: true},
	{Name: "sub-field", Does: "a subfield is dropped that would be an object", Loses: true, Report: true},
	{Name: "alias-field", Does: "an alias of a field that is not indexed is dropped", Loses: true, Report: true},
	{Name: "alias-filter", Does: "an alias whose filter cannot be read is dropped", Loses: true, Report: true},
	{Name: "alias-of-own-name", Does: "an alias with the name of its index is dropped", Loses: true, Report: true},
	{Name: "unknown-option", Does: "an option that the target does not know is dropped", Loses: true, Report: true},
	{Name: "unknown-setting", Does: "a setting that the target does not know is dropped", Report: true},
	{Name: "collection-setting", Does: "a setting that a collection of OpenSearch Serverless decides about is dropped (shards, replicas, refreshes, sorting, codecs)", Report: true},
	{Name: "source-only", Does: "the index comes from a source-only snapshot; its mapping is the original one, which the snapshot keeps in `_meta`", Report: true},
	{Name: "setting", Does: "a setting that is not on the list of those an index keeps is dropped", Report: true},
	{Name: "vector-setting", Does: "`index.knn` is set for an index with vectors", Report: true},
	{Name: "override", Does: "what the user asked for instead (replicas, shards)", Report: true},
	{Name: "awareness", Does: "replicas are raised to what the target's zones demand", Report: true},
	{Name: "user-rule", Does: "a rule of the user's own file", Report: true},
	{Name: "target", Does: "the created index differs from the requested one: templates of the target add to it", Report: true},
	{Name: "pipeline-setting", Does: "a pipeline that is not migrated is left out of a template", Report: true},
	{Name: "lifecycle", Does: "settings of ILM are dropped, or replaced by settings of ISM", Report: true},
	{Name: "template-option", Does: "a member of a template that OpenSearch does not know is dropped", Report: true},
	{Name: "data-stream-option", Does: "an option of a template for data streams that OpenSearch does not know is dropped", Report: true},
	{Name: "pipeline-option", Does: "a member of a pipeline that OpenSearch does not know is dropped", Report: true},
	{Name: "ism-action", Does: "an action of an ILM policy has no equal in ISM, or another one", Report: true},
	{Name: "ism-age", Does: "ages of an ILM policy are counted from rollover or from creation, as ISM can", Report: true},
	{Name: "ism-attach", Does: "a policy is attached to nothing while documents are on their way", Report: true},
	{Name: "ism-option", Does: "an option of an ILM policy has no equal in ISM", Report: true},
	{Name: "ism-phase", Does: "an ILM phase is dropped when none of its actions remain", Report: true},
	{Name: "missing-component", Does: "a component that a template need not have, and the snapshot has not, is left out", Report: true},
}

// RuleNames returns the names of the rules that can be switched off (Overrides.Without, Selection.Without).
func RuleNames() []string {
	var names []string
	for _, r := range registry {
		if !r.Report {
			names = append(names, r.Name)
		}
	}
	return names
}

// CheckRuleNames returns a fault.ErrConfig error that names a rule which does not exist or cannot be switched off.
func CheckRuleNames(names []string) error {
	for _, name := range names {
		if !slices.Contains(RuleNames(), name) {
			return fmt.Errorf("rule %q does not exist; rules that can be switched off: %s: %w", name, strings.Join(RuleNames(), ", "), fault.ErrConfig)
		}
	}
	return nil
}

// losing reports whether every change of a rule is lossy. Only rules marked Report state that for all changes.
func losing(rule string) bool {
	return slices.ContainsFunc(registry, func(r Rule) bool { return r.Name == rule && r.Loses && r.Report })
}
