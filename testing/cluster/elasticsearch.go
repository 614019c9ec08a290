package cluster

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// launchers are small programs that start a node from plain jars, one per shape of the Node constructor.
//
//go:embed launch/*.txt
var launchers embed.FS

// recipe describes how a version is assembled.
type recipe struct {
	artifacts []coordinate
	zip       bool     // the version is a distribution; its jars, including modules, become one class path
	program   string   // launcher; "": the distribution's own script
	modules   []string // folders below modules/ of a distribution that go on the class path
	without   []string // prefixes of jars to leave out
	low, high int      // JDK versions
	java      []string // additional JVM options
	transport string   // name of the setting for the transport port
	rare      bool     // used for fixtures only
}

func plugins(version string, names ...string) []coordinate {
	all := []coordinate{coordinate("org.elasticsearch:elasticsearch:" + version)}
	for _, n := range names {
		all = append(all, coordinate("org.elasticsearch.plugin:"+n+":"+version))
	}
	return all
}

// recipes holds every version that can be assembled.
var recipes = map[string]recipe{
	"2.4.6": {
		artifacts: []coordinate{"org.elasticsearch.distribution.zip:elasticsearch:2.4.6:zip"}, zip: true, program: "v2",
		low: 17, high: 20, transport: "transport.tcp.port",
		java: []string{"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"},
	},
	"5.6.16": {
		artifacts: []coordinate{"org.elasticsearch.distribution.zip:elasticsearch:5.6.16:zip"}, zip: true, program: "v5",
		modules: []string{"lang-painless", "reindex", "transport-netty4", "parent-join", "ingest-common", "percolator"},
		low:     17, high: 20, transport: "transport.tcp.port",
	},
	"6.8.23": {
		artifacts: append(plugins("6.8.23", "transport-netty4-client", "parent-join-client", "reindex-client"),
			"org.apache.logging.log4j:log4j-core:2.17.1"),
		program: "v6", low: 17, high: 20, transport: "transport.port",
	},
	"7.10.2": {
		artifacts: []coordinate{"org.codelibs:elasticsearch-cluster-runner:7.10.2.0"},
		program:   "v7", low: 17, high: 20, transport: "transport.port",
	},
	"7.17.29": {
		artifacts: plugins("7.17.29", "transport-netty4-client", "parent-join-client", "reindex-client"),
		program:   "v7", low: 17, high: 20, transport: "transport.port",
	},
	"8.6.2": {
		artifacts: []coordinate{"org.elasticsearch.distribution.integ-test-zip:elasticsearch:8.6.2:zip"}, zip: true, rare: true,
		low: 17, high: 20, transport: "transport.port",
	},
	"8.11.4": {
		artifacts: []coordinate{"org.elasticsearch.distribution.integ-test-zip:elasticsearch:8.11.4:zip"}, zip: true, rare: true,
		low: 17, high: 21, transport: "transport.port",
	},
	"8.19.21": {
		artifacts: []coordinate{"org.elasticsearch.distribution.integ-test-zip:elasticsearch:8.19.21:zip"}, zip: true,
		low: 17, high: 24, transport: "transport.port",
	},
	"9.0.8": {
		artifacts: []coordinate{"org.elasticsearch.distribution.integ-test-zip:elasticsearch:9.0.8:zip"}, zip: true, rare: true,
		low: 21, high: 99, transport: "transport.port",
	},
	"9.5.3": {
		artifacts: append(plugins("9.5.3", "transport-netty4"), "org.elasticsearch.test:framework:9.5.3"),
		program:   "v9", without: []string{"randomizedtesting-runner-", "lucene-test-framework-"}, low: 21, high: 99, transport: "transport.port",
		java: []string{"--enable-native-access=ALL-UNNAMED", "--add-modules=jdk.incubator.vector",
			"-Dorg.elasticsearch.nativeaccess.enableVectorLibrary=false", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"},
	},
}

// candidates are plugin classes of all versions; the launcher loads the ones on the class path.
var candidates = []string{
	"org.elasticsearch.transport.Netty4Plugin",
	"org.elasticsearch.transport.netty4.Netty4Plugin",
	"org.elasticsearch.join.ParentJoinPlugin",
	"org.elasticsearch.index.reindex.ReindexPlugin",
	"org.elasticsearch.reindex.ReindexPlugin",
	"org.elasticsearch.painless.PainlessPlugin",
	"org.elasticsearch.ingest.common.IngestCommonPlugin",
	"org.elasticsearch.index.mapper.MapperExtrasPlugin",
	"org.elasticsearch.analysis.common.CommonAnalysisPlugin",
}

// elasticsearchDist puts the jars (or the distribution) and the compiled launcher into the cache.
func elasticsearchDist(ctx context.Context, version, java string, r recipe) (string, error) {
	return assembled("elasticsearch-"+version, func(dir string) error {
		work, err := os.MkdirTemp("", "rfsd-fetch-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work) //nolint:errcheck // only temporary files
		if err := fetch(ctx, work, map[string][]coordinate{"main": r.artifacts}); err != nil {
			return err
		}
		jars := filepath.Join(work, "main", "jars")
		if r.zip {
			if err := unzip(filepath.Join(jars, "elasticsearch-"+version+".zip"), dir, 1, nil); err != nil {
				return err
			}
		} else if err := os.CopyFS(filepath.Join(dir, "lib"), filesWithout{os.DirFS(jars), r.without}); err != nil {
			return err
		}
		if r.program == "" {
			return nil
		}
		source, err := fs.ReadFile(launchers, "launch/"+r.program+".txt")
		if err != nil {
			return err
		}
		file := filepath.Join(work, "Launch.java")
		if err := write(file, string(source)); err != nil {
			return err
		}
		out := filepath.Join(dir, "launch")
		if err := os.MkdirAll(out, 0o755); err != nil {
			return err
		}
		javac := exec.CommandContext(ctx, filepath.Join(java, "bin", "javac"), "-nowarn", "-d", out, "-cp", classPath(dir, r), file)
		if b, err := javac.CombinedOutput(); err != nil {
			return fmt.Errorf("javac %s: %w: %s", r.program, err, bytes.TrimSpace(b))
		}
		return nil
	})
}

// filesWithout hides files by prefix.
type filesWithout struct {
	fs.FS
	prefixes []string
}

func (j filesWithout) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(j.FS, name)
	var kept []fs.DirEntry
	for _, e := range all {
		hidden := false
		for _, p := range j.prefixes {
			hidden = hidden || strings.HasPrefix(e.Name(), p)
		}
		if !hidden {
			kept = append(kept, e)
		}
	}
	return kept, err
}

func classPath(dist string, r recipe) string {
	parts := []string{filepath.Join(dist, "launch"), filepath.Join(dist, "lib", "*")}
	for _, m := range r.modules {
		parts = append(parts, filepath.Join(dist, "modules", m, "*"))
	}
	return strings.Join(parts, ":")
}

// JDK returns the home directory of a JDK that runs a version of a product.
func JDK(product, version string) (string, error) {
	if product == "opensearch" {
		if major(version) >= 3 {
			return javaHome(21, 99)
		}
		return javaHome(17, 20) // later JDKs have no security manager, which 1.x and 2.x need
	}
	r, ok := recipes[version]
	if !ok {
		return "", fmt.Errorf("there is no recipe, only for %s", strings.Join(Versions("elasticsearch"), ", "))
	}
	return javaHome(r.low, r.high)
}

// elasticsearch prepares a node of Elasticsearch.
func elasticsearch(ctx context.Context, s *spec) (*launch, error) {
	if s.secured {
		return nil, errors.New("only OpenSearch can be secured")
	}
	r := recipes[s.version]
	java, err := JDK(s.product, s.version)
	if err != nil {
		return nil, err
	}
	dist, err := elasticsearchDist(ctx, s.version, java, r)
	if err != nil {
		return nil, err
	}
	n, err := newNode(s)
	if err != nil {
		return nil, err
	}
	if r.program == "" {
		return s.distribution(n, dist, java)
	}
	args := append(s.jvm(), s.gc(), "-Dlog4j2.formatMsgNoLookups=true", "-Dio.netty.noUnsafe=true",
		"-Dlog4j.configurationFile="+filepath.Join(n.Dir, "config", "log4j2.properties"),
		"-Djava.io.tmpdir="+filepath.Join(n.Dir, "tmp"),
		"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED")
	args = append(append(args, r.java...), "-cp", classPath(dist, r), "Launch")
	args = append(args, s.arguments(n, r)...)
	if err := write(filepath.Join(n.Dir, "config", "log4j2.properties"), log4j2); err != nil {
		return nil, err
	}
	return &launch{node: n, java: filepath.Join(java, "bin", "java"), args: args, dir: n.Dir}, nil
}

// arguments returns the settings as key=value, and the plugins to load.
func (s *spec) arguments(n *Node, r recipe) []string {
	args := []string{"path.home=" + n.Dir, "http.max_content_length=64mb", fmt.Sprintf("%s=%d", r.transport, s.place.transport)}
	for _, line := range s.config(n) {
		k, v, _ := strings.Cut(line, ": ")
		if k == "path.repo" { // plain lists are comma-separated
			v = strings.Join(append([]string{n.Repos}, s.repos...), ",")
		}
		args = append(args, k+"="+v)
	}
	if r.program == "v2" {
		args = append(args, "path.conf="+filepath.Join(n.Dir, "config"), "discovery.zen.ping.multicast.enabled=false",
			fmt.Sprintf("discovery.zen.ping.unicast.hosts=127.0.0.1:%d", s.place.transport))
	} else {
		args = append(args, "discovery.type=single-node")
		for _, c := range candidates {
			args = append(args, "plugin="+c)
		}
	}
	return append(args, s.settings...)
}

// distribution starts a node with the script of its distribution.
func (s *spec) distribution(n *Node, dist, java string) (*launch, error) {
	conf := filepath.Join(n.Dir, "config")
	sub, err := fs.Sub(os.DirFS(dist), "config")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(conf, filesWithout{sub, []string{"elasticsearch.yml"}}); err != nil {
		return nil, err
	}
	if err := withoutLogs(filepath.Join(conf, "jvm.options")); err != nil {
		return nil, err
	}
	lines := append(s.config(n), fmt.Sprintf("transport.port: %d", s.place.transport), "discovery.type: single-node", "xpack.security.enabled: false")
	for _, kv := range s.settings {
		k, v, _ := strings.Cut(kv, "=")
		lines = append(lines, k+": "+v)
	}
	if err := write(filepath.Join(conf, "elasticsearch.yml"), strings.Join(lines, "\n")+"\n"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(conf, "jvm.options.d"), 0o755); err != nil {
		return nil, err
	}
	return &launch{
		node: n, java: filepath.Join(dist, "bin", "elasticsearch"), dir: dist,
		env: []string{"HOME=" + n.Dir, "ES_PATH_CONF=" + conf, "ES_JAVA_HOME=" + java, "ES_TMPDIR=" + filepath.Join(n.Dir, "tmp"),
			"ES_JAVA_OPTS=" + strings.Join(s.jvm(), " ")},
	}, nil
}

// withoutLogs removes the garbage collector's log from a file of JVM options: it would be written into the distribution, where servers may
// not write.
func withoutLogs(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(strings.SplitAfter(string(b), "\n"), func(line string) bool { return strings.Contains(line, "-Xlog:gc") })
	return os.WriteFile(name, []byte(strings.Join(kept, "")), 0o644)
}
