package cluster

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// DataFrom starts the node on a copy of another node's data directory (Node.Dir/data), as an in-place upgrade does.
func DataFrom(dir string) Option { return func(s *spec) { s.data = dir } }

// takeData copies the data of the earlier node.
func (s *spec) takeData(n *Node) error {
	if s.data == "" {
		return nil
	}
	if err := os.CopyFS(filepath.Join(n.Dir, "data"), os.DirFS(s.data)); err != nil {
		return fmt.Errorf("data of the earlier node: %w", err)
	}
	return nil
}

// smallHeap is the heap of nodes for tests.
const smallHeap = "512m"

// gc is the JVM's option for the garbage collector.
func (s *spec) gc() string { return "-XX:+Use" + cmp.Or(s.collector, "Serial") + "GC" }

// jvm returns the options of the JVM for its heap and compiler. Nodes for tests live for minutes, for which the optimizing compiler takes
// more time than it saves.
func (s *spec) jvm() []string {
	all := []string{"-Xms" + s.heap, "-Xmx" + s.heap}
	if s.heap == smallHeap && s.collector == "" {
		all = append(all, "-XX:TieredStopAtLevel=1")
	}
	return all
}
