package metadata

import (
	"encoding/json"
	"strings"
)

// spaces are the k-NN plugin's names for Elasticsearch's similarities. Vectors of
// dot_product have length 1.
var spaces = map[string]string{"l2_norm": "l2", "cosine": "cosinesimil", "dot_product": "innerproduct", "max_inner_product": "innerproduct"}

// indexedByDefault is the first index.version.created (of Elasticsearch 8.11) whose vectors are indexed
// unless the mapping disables it.
const indexedByDefault = 8_500_000

// denseVector converts Elasticsearch's vectors to the type of the k-NN plugin. If the target rejects that
// type, elasticType converts them to objects. Vectors that only scripts compare need no graph.
func denseVector(e *edit, path string, f map[string]any) {
	dims := Text(f["dims"])
	if f["type"] != "dense_vector" || e.version.Distribution == "elasticsearch" || e.unsupported.types["knn_vector"] || dims == "" {
		return
	}
	options, _ := f["index_options"].(map[string]any)
	indexed := Text(f["index"]) == "true" || f["index"] == nil && (f["similarity"] != nil || options != nil || e.exactly >= indexedByDefault)
	similarity, element := orDefault(Text(f["similarity"]), "cosine"), orDefault(Text(f["element_type"]), "float")
	to := map[string]any{"type": "knn_vector", "dimension": json.Number(dims)}
	engine, space := "lucene", spaces[similarity]
	switch {
	case e.version.Serverless(): // collections have no other engine
		engine = "faiss"
	case !e.since(2, 2):
		engine = "nmslib"
	case similarity == "max_inner_product" && !e.since(2, 13), similarity == "dot_product" && !e.since(2, 13):
		engine = "faiss"
	}
	switch {
	case element == "byte" && e.since(2, 9):
		to["data_type"] = "byte"
	case element == "bit" && e.since(2, 16):
		// Both encode eight bits as one number, and count bits in the dimension.
		to["data_type"], engine, space = "binary", "faiss", "hamming"
	case element == "bfloat16", element == "float":
	default:
		return // the target does not have this element type
	}
	if space == "" {
		return
	}
	if f["fields"] != nil {
		to["fields"] = f["fields"]
	}
	if f["copy_to"] != nil {
		to["copy_to"] = f["copy_to"]
	}
	if indexed {
		to["method"] = map[string]any{"name": "hnsw", "engine": engine, "space_type": space}
		if p := graphParameters(options); len(p) > 0 {
			to["method"].(map[string]any)["parameters"] = p
		}
		e.vectors = true
	}
	for _, k := range keys(f) {
		delete(f, k)
	}
	for k, v := range to {
		f[k] = v
	}
	switch kind := Text(options["type"]); {
	case !indexed:
		e.note("dense-vector", path, "knn_vector that is not indexed, as before: for exact search by scripts")
	case strings.Contains(kind, "int8") || strings.Contains(kind, "int4") || strings.Contains(kind, "bbq"):
		e.note("dense-vector", path, "knn_vector (hnsw of %s, space %s); %s is left out: more memory, no less exact", engine, space, kind)
	default:
		e.note("dense-vector", path, "knn_vector (hnsw of %s, space %s)", engine, space)
	}
}

// graphParameters returns the parameters of the graph that have the same meaning in both systems.
func graphParameters(options map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range []string{"m", "ef_construction"} {
		if v, ok := options[k]; ok {
			out[k] = v
		}
	}
	return out
}

// methodsInMappings reports whether a target creates no index with nmslib, and ignores methods in settings: OpenSearch 3, and
// collections of OpenSearch Serverless, whose only engine is Faiss.
func (e *edit) methodsInMappings() bool { return e.since(3, 0) || e.version.Serverless() }

// knnEngine replaces engines that the target does not have.
func knnEngine(e *edit, path string, f map[string]any) {
	if f["type"] != "knn_vector" || !e.methodsInMappings() {
		return
	}
	method, ok := f["method"].(map[string]any)
	switch {
	case !ok && f["model_id"] == nil && len(e.moved) > 0:
		method = map[string]any{"name": "hnsw", "engine": "faiss"}
		parameters := map[string]any{}
		for k, v := range e.moved {
			switch k {
			case "index.knn.space_type":
				method["space_type"] = v
			case "index.knn.algo_param.m":
				parameters["m"] = json.Number(Text(v))
			case "index.knn.algo_param.ef_construction":
				parameters["ef_construction"] = json.Number(Text(v))
			}
		}
		if len(parameters) > 0 {
			method["parameters"] = parameters
		}
		f["method"] = method
		e.note("knn-engine", path, "method %s instead of the settings index.knn.*", Brief(method))
	case ok && (method["engine"] == "nmslib" || method["engine"] == nil && method["space_type"] != nil):
		method["engine"] = "faiss"
		e.note("knn-engine", path, "faiss instead of nmslib")
	case ok && e.version.Serverless() && method["engine"] == "lucene":
		method["engine"] = "faiss"
		e.note("knn-engine", path, "faiss instead of lucene")
	case !ok:
		return
	}
	if s := Text(method["space_type"]); s == "l1" || s == "linf" {
		method["space_type"] = "l2"
		e.lose("knn-engine", path, "space l2 instead of %s, which only nmslib had: neighbours are others", s)
	}
}

// knnSettings moves the settings that defined a method before methods were part of the mapping.
func knnSettings(e *edit, s map[string]any) {
	if !e.methodsInMappings() {
		return
	}
	for _, k := range []string{"index.knn.space_type", "index.knn.algo_param.m", "index.knn.algo_param.ef_construction"} {
		if v, ok := s[k]; ok {
			e.moved[k] = v
			delete(s, k)
		}
	}
}

// betweenParts applies settings in one part of a body that affect another part.
func (e *edit) betweenParts(settings map[string]any) {
	if e.vectors && settings["index.knn"] == nil && !e.unsupported.settings["index.knn"] {
		e.note("vector-setting", "index.knn", "true: the index has vectors to be searched")
		settings["index.knn"] = "true"
	}
}
