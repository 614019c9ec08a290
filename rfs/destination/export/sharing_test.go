package export

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func openShared(t *testing.T, dir, writer string) *Dir {
	t.Helper()
	d, err := OpenShared(dir, writer, None)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// attempt begins the output of shard 0 of the index i with a document.
func attempt(t *testing.T, d *Dir, may func() error, id string) *File {
	t.Helper()
	f, err := d.Create("i", 0, 0, may)
	if err != nil {
		t.Fatal(err)
	}
	send(t, f, pair("i", id))
	return f
}

func held() error { return nil }

func lost() error { return fault.ErrLeaseLost }

const sharedFile = "i/0-0.ndjson"

func TestASharedDirectoryHasOneOwnerOrSeveralWriters(t *testing.T) {
	dir := t.TempDir()
	one, two := openShared(t, dir, "one"), openShared(t, dir, "two")
	if one.ID() != two.ID() || one.ID() == "" {
		t.Errorf("two exports in one directory: %q and %q", one.ID(), two.ID())
	}
	if _, err := Open(dir, "three", None); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("opened alone beside others: %v", err)
	}
	if _, err := OpenShared(dir, "one", None); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("the same writer twice: %v", err)
	}
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Fatal(err)
	}
	alone := openDir(t, dir, "three", None)
	if _, err := OpenShared(dir, "one", None); !errors.Is(err, fault.ErrConfig) || alone == nil {
		t.Errorf("opened beside the owner: %v", err)
	}
}

func TestADeadWritersUnfinishedFilesAreRemovedAndALivingOnesStay(t *testing.T) {
	dir := t.TempDir()
	living := openShared(t, dir, "living-1")
	f := attempt(t, living, held, "a")
	dead := openShared(t, dir, "dead-1")
	send(t, attempt(t, dead, held, "b"), pair("j", "c"))
	if err := errors.Join(dead.own.Close(), dead.lock.Close()); err != nil { // as the system does when a process is killed
		t.Fatal(err)
	}
	defer openShared(t, dir, "next").Close()
	want := map[string]string{sharedFile + ".tmp-living-1-1": ""}
	if got := tree(t, dir); len(got) != 1 || len(want) != 1 || got[sharedFile+".tmp-living-1-1"] == "" {
		t.Errorf("left: %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, private, writersFolder, "dead-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead writer is still listed: %v", err)
	}
	commit(t, f)
	if got := tree(t, dir); !maps.Equal(got, map[string]string{sharedFile: pair("i", "a")}) {
		t.Errorf("%v", got)
	}
}

// TestWhoHasLostAnItemPublishesNothing: neither before nor after the one who has it.
func TestWhoHasLostAnItemPublishesNothing(t *testing.T) {
	dir := t.TempDir()
	late, now := openShared(t, dir, "late"), openShared(t, dir, "now")
	f := attempt(t, late, lost, "of the late one")
	commit(t, attempt(t, now, held, "right"))
	if err := f.Commit(t.Context()); !errors.Is(err, fault.ErrLeaseLost) {
		t.Errorf("published: %v", err)
	}
	if err := f.Abort(); err != nil {
		t.Error(err)
	}
	if got := tree(t, dir); !maps.Equal(got, map[string]string{sharedFile: pair("i", "right")}) {
		t.Errorf("%v", got)
	}
}

// TestTheNextHolderPublishesAfterTheFormer: a writer stands still after it was asked whether it has the item. The one who takes
// the item meanwhile waits for it, and its files are those that stay.
func TestTheNextHolderPublishesAfterTheFormer(t *testing.T) {
	dir := t.TempDir()
	former, next := openShared(t, dir, "former"), openShared(t, dir, "next")
	asked, goOn := make(chan struct{}), make(chan struct{})
	a := attempt(t, former, func() error { close(asked); <-goOn; return nil }, "former")
	b := attempt(t, next, held, "next")
	ends := make(chan error, 2)
	go func() { ends <- a.Commit(t.Context()) }()
	<-asked
	go func() { ends <- b.Commit(t.Context()) }()
	select {
	case err := <-ends:
		close(goOn)
		<-ends
		t.Fatalf("published while another writer was about to: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	if err := errors.Join(<-ends, <-ends); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); !maps.Equal(got, map[string]string{sharedFile: pair("i", "next")}) {
		t.Errorf("%v", got)
	}
}

func TestTheManifestHasTheFilesOfAllWriters(t *testing.T) {
	dir := t.TempDir()
	one, two := openShared(t, dir, "one"), openShared(t, dir, "two")
	commit(t, attempt(t, one, held, "a"))
	f, err := two.Create("i", 1, 0, held)
	if err != nil {
		t.Fatal(err)
	}
	send(t, f, pair("i", "b"), pair("i", "c"))
	commit(t, f)
	for _, d := range []*Dir{one, two} { // each process that finds no work left ends the export
		if err := d.Finish(""); err != nil {
			t.Fatal(err)
		}
	}
	read := func() Manifest {
		b, err := os.ReadFile(filepath.Join(dir, ManifestName))
		if err != nil {
			t.Fatal(err)
		}
		m, err := ParseManifest(b)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := read(); !m.Complete || m.Documents != 3 || len(m.Files) != 2 {
		t.Errorf("%+v", m)
	}
	again := attempt(t, one, held, "a2") // an operator has opened an item again; two ended the export last
	if m := read(); m.Complete {
		t.Errorf("complete while a file is written: %+v", m)
	}
	commit(t, again)
	if err := two.Finish(""); err != nil {
		t.Fatal(err)
	}
	if m := read(); !m.Complete || m.Documents != 3 {
		t.Errorf("%+v", m)
	}
}
