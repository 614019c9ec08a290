package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// module is a published plugin that older distributions lack; its descriptor is generated.
type module struct {
	artifact, name, class, extends string
}

// openSearchModules are the modules of a plain installation, besides the transport, that migrations need.
var openSearchModules = []module{
	{"lang-painless", "lang-painless", "org.opensearch.painless.PainlessPlugin", ""},
	{"reindex-client", "reindex", "org.opensearch.index.reindex.ReindexPlugin", ""},
	{"parent-join-client", "parent-join", "org.opensearch.join.ParentJoinPlugin", ""},
	{"analysis-common", "analysis-common", "org.opensearch.analysis.common.CommonAnalysisPlugin", "lang-painless"},
	{"mapper-extras-client", "mapper-extras", "org.opensearch.index.mapper.MapperExtrasPlugin", ""},
	{"ingest-common", "ingest-common", "org.opensearch.ingest.common.IngestCommonPlugin", "lang-painless"},
	{"aggs-matrix-stats-client", "aggs-matrix-stats", "org.opensearch.search.aggregations.matrix.MatrixAggregationPlugin", ""},
	{"rank-eval-client", "rank-eval", "org.opensearch.index.rankeval.RankEvalPlugin", ""},
	{"percolator-client", "percolator", "org.opensearch.percolator.PercolatorPlugin", ""},
	{"lang-mustache-client", "lang-mustache", "org.opensearch.script.mustache.MustachePlugin", ""},
}

// fromJars are the versions whose zip is not published as an artifact. They are assembled from the jars of the server and of modules.
var fromJars = map[string]struct {
	libs    []coordinate // besides the server
	modules []module
}{
	// The only version whose server itself supports index.codec zstd and zstd_no_dict; older versions lack them, later ones have them in a
	// plugin that is not published.
	"2.9.0": {
		[]coordinate{"org.apache.logging.log4j:log4j-core:2.17.1"},
		[]module{{"transport-netty4-client", "transport-netty4", "org.opensearch.transport.Netty4Plugin", ""}},
	},
	"3.9.0": {
		[]coordinate{"org.apache.logging.log4j:log4j-core:2.25.5", "org.opensearch:opensearch-agent-bootstrap:3.9.0", "org.opensearch:opensearch-agent-policy:3.9.0"},
		[]module{
			{"transport-netty4-client", "transport-netty4", "org.opensearch.transport.Netty4ModulePlugin", ""},
			{"lang-painless", "lang-painless", "org.opensearch.painless.PainlessModulePlugin", ""},
			{"reindex-client", "reindex", "org.opensearch.index.reindex.ReindexModulePlugin", ""},
			{"parent-join-client", "parent-join", "org.opensearch.join.ParentJoinModulePlugin", ""},
			{"analysis-common", "analysis-common", "org.opensearch.analysis.common.CommonAnalysisModulePlugin", "lang-painless"},
			{"mapper-extras-client", "mapper-extras", "org.opensearch.index.mapper.MapperExtrasModulePlugin", ""},
			{"lang-mustache-client", "lang-mustache", "org.opensearch.script.mustache.MustacheModulePlugin", ""},
		},
	},
}

// complete is the version whose published zip contains every module; its security policies are used for older ones.
const complete = "3.8.0"

func major(version string) int {
	n := 0
	for _, c := range version {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// openSearchDist assembles the distribution of a version in the cache.
func openSearchDist(ctx context.Context, version string) (string, error) {
	return assembled("opensearch-"+version, func(dir string) error {
		work, err := os.MkdirTemp("", "rfsd-fetch-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work) //nolint:errcheck // only temporary files
		zipOf := func(v string) coordinate {
			return coordinate("org.opensearch.distribution.integ-test-zip:opensearch:" + v + ":zip")
		}
		parts, modules := map[string][]coordinate{"dist": {zipOf(version)}}, openSearchModules
		jarred, jarsOnly := fromJars[version]
		if jarsOnly {
			parts["dist"] = append([]coordinate{coordinate("org.opensearch:opensearch:" + version), coordinate("org.opensearch:opensearch-plugin-classloader:" + version)}, jarred.libs...)
			modules = jarred.modules
		}
		old := major(version) < 3 || jarsOnly
		if old {
			parts["policies"] = []coordinate{zipOf(complete)}
			for _, m := range modules {
				parts[m.artifact] = []coordinate{coordinate("org.opensearch.plugin:" + m.artifact + ":" + version)}
			}
		}
		if err := fetch(ctx, work, parts); err != nil {
			return err
		}
		jars := filepath.Join(work, "dist", "jars")
		if jarsOnly {
			// The server expects a directory bin, too, and may not create it there.
			err = errors.Join(os.CopyFS(filepath.Join(dir, "lib"), os.DirFS(jars)), os.Mkdir(filepath.Join(dir, "bin"), 0o755))
		} else {
			err = unzip(filepath.Join(jars, "opensearch-"+version+".zip"), dir, 1, nil)
		}
		if err != nil || !old {
			return err
		}
		for _, m := range modules {
			if err := addModule(dir, filepath.Join(work, m.artifact, "jars"), version, m); err != nil {
				return fmt.Errorf("module %s: %w", m.name, err)
			}
		}
		return unzip(filepath.Join(work, "policies", "jars", "opensearch-"+complete+".zip"), dir, 1, func(name string) bool {
			f := strings.Split(name, "/")
			if len(f) != 3 || f[0] != "modules" || f[2] != "plugin-security.policy" {
				return false
			}
			_, err := os.Stat(filepath.Join(dir, "modules", f[1], "plugin-descriptor.properties"))
			_, there := os.Stat(filepath.Join(dir, name))
			return err == nil && there != nil
		})
	})
}

// addModule copies the jars that the distribution lacks and writes the descriptor.
func addModule(dist, jars, version string, m module) error {
	found, err := filepath.Glob(filepath.Join(jars, "*.jar"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("no jars in %s: %w", jars, err)
	}
	to := filepath.Join(dist, "modules", m.name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, jar := range found {
		base := filepath.Base(jar)
		if _, err := os.Stat(filepath.Join(dist, "lib", base)); err == nil {
			continue // a class must not be on the class path twice
		}
		if err := copyFile(jar, filepath.Join(to, base)); err != nil {
			return err
		}
	}
	java := "11"
	if major(version) == 1 {
		java = "1.8"
	}
	return write(filepath.Join(to, "plugin-descriptor.properties"), fmt.Sprintf(
		"description=%s\nversion=%s\nname=%s\nclassname=%s\njava.version=%s\nopensearch.version=%s\nextended.plugins=%s\nhas.native.controller=false\n",
		m.name, version, m.name, m.class, java, version, m.extends))
}

const log4j2 = `status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
`

// openSearch prepares a node of OpenSearch.
func openSearch(ctx context.Context, s *spec) (*launch, error) {
	m := major(s.version)
	java, err := JDK(s.product, s.version)
	if err != nil {
		return nil, err
	}
	dist, err := openSearchDist(ctx, s.version)
	if err == nil && s.secured {
		dist, err = securedDist(ctx, s.version, dist)
	}
	if err != nil {
		return nil, err
	}
	n, err := newNode(s)
	if err != nil {
		return nil, err
	}
	conf := s.config(n)
	if s.secured {
		extra, err := secure(n, dist)
		if err != nil {
			return nil, err
		}
		conf = append(conf, extra...)
	}
	conf = append(conf, fmt.Sprintf("transport.port: %d", s.place.transport), "bootstrap.memory_lock: false", "node.store.allow_mmap: false")
	conf = append(conf, s.discovery()...)
	if s.collector == "" { // with Serial the breaker would count garbage and reject every request before a collection
		conf = append(conf, "indices.breaker.total.use_real_memory: false")
	}
	for _, kv := range s.settings {
		k, v, _ := strings.Cut(kv, "=")
		conf = append(conf, k+": "+v)
	}
	if err := write(filepath.Join(n.Dir, "config", "opensearch.yml"), strings.Join(conf, "\n")+"\n"); err != nil {
		return nil, err
	}
	if err := write(filepath.Join(n.Dir, "config", "log4j2.properties"), log4j2); err != nil {
		return nil, err
	}
	args := append(s.jvm(), s.gc(), "-Xss1m", "-Djava.awt.headless=true", "-Dfile.encoding=UTF-8", "-Djna.nosys=true",
		"-Dio.netty.noUnsafe=true", "-Dio.netty.noKeySetOptimization=true", "-Dio.netty.recycler.maxCapacityPerThread=0",
		"-Dio.netty.allocator.numDirectArenas=0", "-Dlog4j.shutdownHookEnabled=false", "-Dlog4j2.disable.jmx=true",
		"-Djava.locale.providers=SPI,CLDR", "-Djava.io.tmpdir="+filepath.Join(n.Dir, "tmp"))
	if m >= 3 {
		if _, jarsOnly := fromJars[s.version]; !jarsOnly {
			args = append(args, "-javaagent:"+dist+"/agent/opensearch-agent.jar")
		}
		args = append(args, "--add-opens=java.base/java.nio=ALL-UNNAMED",
			"--add-modules=jdk.incubator.vector", "-Dorg.apache.lucene.store.MMapDirectory.sharedArenaMaxPermits=1")
	} else {
		args = append(args, "-Djava.security.manager=allow")
	}
	args = append(args, "-Dopensearch.path.home="+dist, "-Dopensearch.path.conf="+filepath.Join(n.Dir, "config"),
		"-Dopensearch.distribution.type=zip", "-Dopensearch.bundled_jdk=false", "-cp", dist+"/lib/*", "org.opensearch.bootstrap.OpenSearch")
	return &launch{node: n, java: filepath.Join(java, "bin", "java"), args: args, dir: dist}, nil
}

// discovery returns the settings by which the node finds the other nodes.
func (s *spec) discovery() []string {
	if len(s.peers) == 0 {
		return []string{"discovery.type: single-node"}
	}
	var seeds, names []string
	for _, p := range s.peers {
		seeds = append(seeds, fmt.Sprintf(`"127.0.0.1:%d"`, p.transport))
		names = append(names, `"`+p.name+`"`)
	}
	first := "cluster.initial_cluster_manager_nodes"
	if major(s.version) == 1 {
		first = "cluster.initial_master_nodes"
	}
	return []string{"discovery.seed_hosts: [" + strings.Join(seeds, ",") + "]", first + ": [" + strings.Join(names, ",") + "]"}
}

// newNode creates the working directory of a node.
func newNode(s *spec) (*Node, error) {
	dir, err := workDir(os.TempDir())
	if err != nil {
		return nil, err
	}
	n := &Node{
		URL: fmt.Sprintf("http://127.0.0.1:%d", s.place.http), Product: s.product, Version: s.version,
		Dir: dir, Repos: filepath.Join(dir, "repos"), name: s.place.name,
	}
	if err := s.takeData(n); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

// config returns the settings that every product and version accepts.
func (s *spec) config(n *Node) []string {
	repos := append([]string{n.Repos}, s.repos...)
	name := n.name
	if len(s.peers) > 0 {
		name = s.peers[0].name
	}
	return []string{
		"cluster.name: " + name, "node.name: " + n.name, "network.host: 127.0.0.1", fmt.Sprintf("http.port: %d", s.place.http),
		"path.data: " + filepath.Join(n.Dir, "data"), "path.logs: " + filepath.Join(n.Dir, "logs"),
		`path.repo: ["` + strings.Join(repos, `","`) + `"]`, "cluster.routing.allocation.disk.threshold_enabled: false",
	}
}
