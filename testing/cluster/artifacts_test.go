package cluster

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestOneOfManyBuildsAndAllSeeTheWhole(t *testing.T) {
	t.Setenv("RFSD_CACHE", t.TempDir())
	var builds atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			dir, err := assembled("opensearch-0.0.1", func(dir string) error {
				builds.Add(1)
				return write(filepath.Join(dir, "lib", "a.jar"), "a")
			})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(dir, "lib", "a.jar")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
	if !ready("opensearch", "0.0.1") {
		t.Error("not ready")
	}
}

func TestAFailedBuildLeavesNothingAndIsTriedAgain(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("RFSD_CACHE", cache)
	broken := errors.New("no network")
	_, err := assembled("opensearch-0.0.1", func(dir string) error {
		return errors.Join(write(filepath.Join(dir, "half"), "x"), broken)
	})
	if !errors.Is(err, broken) || ready("opensearch", "0.0.1") {
		t.Fatalf("error %v, ready %v", err, ready("opensearch", "0.0.1"))
	}
	if left, err := filepath.Glob(filepath.Join(cache, ".opensearch-0.0.1-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := assembled("opensearch-0.0.1", func(string) error { return nil }); err != nil || !ready("opensearch", "0.0.1") {
		t.Errorf("second try: %v", err)
	}
}

func TestAnArchiveCannotWriteOutsideItsDirectory(t *testing.T) {
	for name, wantErr := range map[string]bool{"top/lib/a.jar": false, "top/../../evil": true, "../../evil": true} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			archive := filepath.Join(outer, "a.zip")
			f, err := os.Create(archive)
			if err != nil {
				t.Fatal(err)
			}
			z := zip.NewWriter(f)
			w, err := z.Create(name)
			if err == nil {
				_, err = w.Write([]byte("x"))
			}
			if err := errors.Join(err, z.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(outer, "in", "side")
			if err := unzip(archive, dir, 1, nil); (err != nil) != wantErr {
				t.Errorf("error %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "lib", "a.jar")); (err == nil) == wantErr {
				t.Errorf("extracted: %v", err)
			}
			if _, err := os.Stat(filepath.Join(outer, "in", "evil")); err == nil {
				t.Error("it got out")
			}
		})
	}
}

func TestAJDKIsTakenByItsVersion(t *testing.T) {
	home := t.TempDir()
	t.Setenv("JAVA_HOME", home)
	for _, c := range []struct {
		release   string
		low, high int
		want      bool
	}{
		{"JAVA_VERSION=\"97.0.1\"\n", 97, 97, true},
		{"JAVA_VERSION=\"97\"\n", 97, 98, true},
		{"JAVA_VERSION=\"97-ea\"\n", 96, 97, true},
		{"JAVA_VERSION=\"97.0.1\"\n", 98, 99, false},
		{"IMPLEMENTOR=\"nobody\"\n", 97, 97, false},
		{"", 97, 97, false},
	} {
		t.Run(fmt.Sprintf("%q %d-%d", c.release, c.low, c.high), func(t *testing.T) {
			if err := write(filepath.Join(home, "release"), c.release); err != nil {
				t.Fatal(err)
			}
			if err := write(filepath.Join(home, "bin", "javac"), ""); err != nil {
				t.Fatal(err)
			}
			got, err := javaHome(c.low, c.high)
			if c.want && (err != nil || got != home) || !c.want && !errors.Is(err, ErrMissing) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
