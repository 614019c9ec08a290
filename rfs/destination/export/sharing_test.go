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

const sharedFile = "i/0-0.ndjson"

func TestASharedDirectoryHasOneOwnerOrSeveralWriters(t *testing.T) {
	dir := t.TempDir()
	one, two := share(t, dirHome(dir), "one"), share(t, dirHome(dir), "two")
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
	alone := enter(t, dirHome(dir), "three", None)
	if _, err := OpenShared(dir, "one", None); !errors.Is(err, fault.ErrConfig) || alone == nil {
		t.Errorf("opened beside the owner: %v", err)
	}
}

func TestADeadWritersUnfinishedFilesAreRemovedAndALivingOnesStay(t *testing.T) {
	die := func(x *Export) error { d := x.place.(*dir); return errors.Join(d.own.Close(), d.lock.Close()) } // as the system does when a process is killed
	dir := t.TempDir()
	living := share(t, dirHome(dir), "living-1")
	f := try(t, living, held, "a")
	dead := share(t, dirHome(dir), "dead-1")
	send(t, try(t, dead, held, "b"), pair("j", "c"))
	if err := die(dead); err != nil {
		t.Fatal(err)
	}
	defer share(t, dirHome(dir), "next").Close()
	want := map[string]string{sharedFile + ".tmp-living-1-1": ""}
	if got := tree(t, dirHome(dir)); len(got) != 1 || len(want) != 1 || got[sharedFile+".tmp-living-1-1"] == "" {
		t.Errorf("left: %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, private, writersFolder, "dead-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead writer is still listed: %v", err)
	}
	commit(t, f)
	if got := tree(t, dirHome(dir)); !maps.Equal(got, map[string]string{sharedFile: pair("i", "a")}) {
		t.Errorf("%v", got)
	}
}

// TestTheNextHolderPublishesAfterTheFormer: a writer stands still after it was asked whether it has the item. The one who takes
// the item meanwhile waits for it, and its files are those that stay.
func TestTheNextHolderPublishesAfterTheFormer(t *testing.T) {
	dir := t.TempDir()
	former, next := share(t, dirHome(dir), "former"), share(t, dirHome(dir), "next")
	asked, goOn := make(chan struct{}), make(chan struct{})
	a := try(t, former, func() error { close(asked); <-goOn; return nil }, "former")
	b := try(t, next, held, "next")
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
	if got := tree(t, dirHome(dir)); !maps.Equal(got, map[string]string{sharedFile: pair("i", "next")}) {
		t.Errorf("%v", got)
	}
}
