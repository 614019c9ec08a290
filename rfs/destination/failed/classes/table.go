package classes

import "github.com/rfsd/rfsd/rfs/document/doc"

// ignoreMalformed is the remedy for values that a field does not accept.
const ignoreMalformed = `keep the value in _source and leave it out of the index: PUT INDEX/_mapping {"properties":{"FIELD":{"type":"TYPE","ignore_malformed":true}}} ` +
	`with the TYPE of the field; or create the index with another type and migrate it in a new session`

// newType is the remedy for fields with the wrong type.
const newType = `create the index with another mapping (the type of a field cannot be changed) and migrate it in a new session, or change the documents with --rules`

// table lists the classes, specific before general.
var table = []Class{
	{
		Name: "strict_mapping", Cause: "the mapping is strict and lacks a field", types: []string{"strict_dynamic_mapping_exception"},
		Remedy: `add the field to the mapping, or allow new ones: PUT INDEX/_mapping {"dynamic":true}`,
	},
	{
		Name: "duplicate_key", Cause: "an object of the document has a key twice", words: []string{"Duplicate field", "Duplicate Object property"},
		Remedy: `migrate the index in a new session (--session-name) with --duplicate-keys keep-last --existing-documents overwrite`,
	},
	{
		Name: "total_fields_limit", Cause: "the document would add more fields than the index may have", words: []string{"Limit of total fields"},
		Remedy: `PUT INDEX/_settings {"index.mapping.total_fields.limit":NUMBER}`,
	},
	{
		Name: "depth_limit", Cause: "objects are nested deeper than the mapping allows", words: []string{"Limit of mapping depth", "depth of the field has exceeded"},
		Remedy: `PUT INDEX/_settings {"index.mapping.depth.limit":NUMBER}`,
	},
	{
		Name: "nested_fields_limit", Cause: "the document would add more nested fields than the index may have", words: []string{"Limit of nested fields"},
		Remedy: `PUT INDEX/_settings {"index.mapping.nested_fields.limit":NUMBER}`,
	},
	{
		Name: "nested_objects_limit", Cause: "the document has more nested objects than the index allows", words: []string{"number of nested documents has exceeded"},
		Remedy: `PUT INDEX/_settings {"index.mapping.nested_objects.limit":NUMBER}`,
	},
	{
		Name: "field_name_length_limit", Cause: "the name of a field is longer than the index allows", words: []string{"is longer than the limit of"},
		Remedy: `PUT INDEX/_settings {"index.mapping.field_name_length.limit":NUMBER}`,
	},
	{
		Name: "immense_term", Cause: "a value is longer than a term can be (32,766 bytes)", words: []string{"immense term"},
		Remedy: `leave long values out of the index: PUT INDEX/_mapping {"properties":{"FIELD":{"type":"keyword","ignore_above":8191}}}`,
	},
	{
		Name: "stream_create_only", Cause: "the name is a data stream, which takes new documents only", words: []string{"only write ops with an op_type of create are allowed in data streams"},
		Remedy: `rfsd redrive sends to data streams with create`,
	},
	{
		Name: "stream_timestamp", Cause: "the document has no single @timestamp, which a data stream needs", words: []string{"data stream timestamp field", "single-valued timestamp field"},
		Remedy: `migrate the index in a new session with --data-streams index, or with --rules that copy or rename a field to @timestamp`,
	},
	{
		Name: "no_write_index", Cause: "the name is an alias of several indices, and none is the write index", words: []string{"no write index is defined for alias"},
		Remedy: `POST _aliases {"actions":[{"add":{"index":"TARGET","alias":"INDEX","is_write_index":true}}]}`,
	},
	{
		Name: "routing_missing", Cause: "the mapping requires a routing, which the document does not have", types: []string{"routing_missing_exception"},
		Remedy: `create the index without "_routing":{"required":true}`,
	},
	{
		Name: "join_routing", Cause: "a child document has no routing", words: []string{"[routing] is missing for join field"},
		Remedy: `create the index without the join field and migrate it in a new session, or give the document a routing at its source`,
	},
	{
		Name: "pipeline_missing", Cause: "the index names an ingest pipeline that does not exist", words: []string{"pipeline with id ["},
		Remedy: `create the pipeline, or PUT INDEX/_settings {"index.final_pipeline":"_none"}`,
	},
	{
		Name: "pipeline_failure", Cause: "an ingest pipeline failed on the document",
		types:  []string{"fail_processor_exception", "ingest_processor_exception", "script_exception"},
		words:  []string{"not present as part of path [", "] doesn't exist"},
		Remedy: `repair the pipeline; or redrive without --run-pipelines, and PUT INDEX/_settings {"index.final_pipeline":"_none"}`,
	},
	{
		Name: "dropped_by_pipeline", Cause: "an ingest pipeline of the target dropped the document", types: []string{string(doc.Dropped)},
		Remedy: `remove the drop processor from the pipeline, or PUT INDEX/_settings {"index.final_pipeline":"_none"}; redrive without --run-pipelines`,
	},
	{
		Name: "id_collision", Cause: "several documents have this id; at the source they are on several shards, or in several indices, but on one shard of the target, which holds one of them; or another client had written this id to the new index", types: []string{string(doc.Collision)},
		Remedy: `a redrive repairs nothing; migrate the index in a new session with as many shards as at the source (--shards), or give the documents ids of their own`,
	},
	{
		Name: "replaced_foreign", Cause: "another client or session wrote this id to the index after this session had created it or found it empty; the document of this session has replaced it and is on the target", types: []string{string(doc.Foreign)},
		Remedy: `a redrive repairs nothing; stop other clients until the migration has ended, and let them write their document again if it was the newer one`,
	},
	{
		Name: "index_block", Cause: "the index is read-only, or the disks of the target are full (flood stage); such an index is paused",
		types:  []string{"cluster_block_exception"},
		Remedy: `free disk space, then PUT INDEX/_settings {"index.blocks.read_only_allow_delete":null,"index.blocks.read_only":null,"index.blocks.write":null}`,
	},
	{
		Name: "index_closed", Cause: "the index is closed; such an index is paused", types: []string{"index_closed_exception"},
		Remedy: `POST INDEX/_open`,
	},
	{
		Name: "index_missing", Cause: "the index does not exist and may not be created; such an index is paused", types: []string{"index_not_found_exception"},
		Remedy: `create the index with its mappings`,
	},
	{
		Name: "forbidden", Cause: "the user may not write to the index; such an index is paused", types: []string{"security_exception", "status_403", "status_401"},
		Remedy: `grant the user indices:data/write/* on INDEX`,
	},
	{
		Name: "metadata_field", Cause: "a field has the name of a metadata field, such as _id", words: []string{"is a metadata field and cannot be added inside a document"},
		Remedy: `rename the field with --rules, in a new session`,
	},
	{
		Name: "field_name", Cause: "the name of a field is empty, or starts or ends with a dot",
		words:  []string{"makes object resolution ambiguous", "name cannot be an empty string", "field name cannot contain only whitespace", "cannot be only whitespace", "object field starting or ending with a [.]"},
		Remedy: `create the index with "enabled":false for the object that has the field, or for the whole mapping, and migrate it in a new session`,
	},
	{
		Name: "id_too_long", Cause: "the id has more than 512 bytes", types: []string{string(doc.LongID)}, words: []string{"is too long, must be no longer than 512 bytes"},
		Remedy: `no target takes it: give the document another id at its source, or in the files of an export, and start a new session`,
	},
	{
		Name: "type_conflict", Cause: "new fields of the document have other types than the mapping", words: []string{"cannot be changed from type", "can't merge a non object mapping", "can't merge a non-nested mapping", "object mapping [", "Could not dynamically add mapping"},
		Remedy: newType,
	},
	{
		Name: "object_expected", Cause: "the mapping has an object where the document has a value", words: []string{"as object, but found a concrete value", "object mapping for ["},
		Remedy: newType,
	},
	{
		Name: "value_expected", Cause: "the mapping has a value where the document has an object", words: []string{"on a START_OBJECT", "Can't get text on a START_OBJECT", "but was START_OBJECT"},
		Remedy: newType,
	},
	{
		Name: "number_range", Cause: "a number is out of the range of its field", words: []string{"out of range"},
		Remedy: ignoreMalformed,
	},
	{
		Name: "date_format", Cause: "a date has none of the formats of its field", words: []string{"of type [date]", "of type [date_nanos]", "failed to parse date field"},
		Remedy: ignoreMalformed,
	},
	{
		Name: "number_format", Cause: "a value is not a number, but its field is numeric",
		words:  []string{"of type [byte]", "of type [short]", "of type [integer]", "of type [long]", "of type [float]", "of type [double]", "of type [half_float]", "of type [scaled_float]", "of type [unsigned_long]"},
		Remedy: ignoreMalformed,
	},
	{
		Name: "boolean_format", Cause: "a value is neither true nor false, but its field is a boolean", words: []string{"of type [boolean]", "as only [true] or [false] are allowed"},
		Remedy: newType,
	},
	{
		Name: "ip_format", Cause: "a value is not an IP address, but its field is one", words: []string{"of type [ip]", "is not an IP string literal"},
		Remedy: ignoreMalformed,
	},
	{
		Name: "geo_format", Cause: "a value is not a geographic point or shape, but its field is one", words: []string{"of type [geo_point]", "of type [geo_shape]"},
		Remedy: ignoreMalformed,
	},
	{
		Name: "value_format", Cause: "a value does not fit the type of its field", words: []string{"failed to parse field [", "ector dimension"},
		Remedy: newType,
	},
	{
		Name: "json", Cause: "the target cannot parse the source",
		types:  []string{"json_parse_exception", "x_content_parse_exception", "parse_exception", "not_x_content_exception"},
		words:  []string{"Unrecognized token", "Unexpected character", "Unexpected end-of-input", "Invalid UTF-8"},
		Remedy: `repair the document at its source and migrate the index in a new session`,
	},
	{
		Name: "mapping", Cause: "the document does not fit the mapping", types: []string{"mapper_parsing_exception", "document_parsing_exception"},
		Remedy: newType,
	},
	{
		Name: "too_large", Cause: "the target takes no request of that size, or rfsd reads no document of that size", types: []string{string(doc.TooLarge)},
		Remedy: `raise http.max_content_length of the target's nodes; where the reason names --max-document-size, that, in a new session`,
	},
	{
		Name: "no_source", Cause: "the snapshot does not hold the source", types: []string{string(doc.NoSource)},
		Remedy: `migrate the index in a new session (--session-name) with --rebuild-sources --existing-documents overwrite: what stored fields and doc values hold arrives; rebuilt sources with a field of an unknown form cannot be repaired`,
	},
	{
		Name: "unreadable", Cause: "id or source of the document cannot be decoded",
		types:  []string{string(doc.NoID), string(doc.BadID), string(doc.BadSource), string(doc.LineBreak)},
		Remedy: `repair the document at its source and migrate the index in a new session`,
	},
	{
		Name: "type_missing", Cause: "the name of the target index needs the mapping type, and none is stored", types: []string{string(doc.MissingType)},
		Remedy: `migrate the index in a new session with --multi-type union`,
	},
	{
		Name: "import_line", Cause: "a line of an imported file is not a document", types: []string{"bad_line", "bad_action", "no_source_line", "mapping_type", "unreadable_line"},
		Remedy: `repair the file and import it in a new session`,
	},
	{
		Name: "index_not_permitted", Cause: "a line of a file of failed documents names an index that the session did not create, or one of rfsd or the system", types: []string{"index_not_permitted"},
		Remedy: `find out who wrote the line; if it is right, name the index with --index-allowlist INDEX (and --include-system), else remove the line from the file`,
	},
	{
		Name: "not_read_again", Cause: "the snapshot, or the file of an import, does not hold the document as it failed", types: []string{"not_read_again"},
		Remedy: `redrive with --repo-uri and --rules of the migration, or with --from of the import; if these are gone, start a new session with others`,
	},
}
