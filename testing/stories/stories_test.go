package stories

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rfsd/rfsd/testing/fakecluster"
)

func app(index string) fakecluster.Key { return fakecluster.Key{Index: index, ID: "app-1"} }

// some returns a document of the snapshot in an index.
func some(index string) fakecluster.Key {
	all, err := snapshot()
	if err != nil {
		panic(err)
	}
	return sorted(of(all, index))[0]
}

// TestStory runs the sequences that faults were found by. After each step the target must hold what the model knows.
func TestStory(t *testing.T) {
	parallel(t)
	tell(t, []story{
		{"a migration, twice, verify, undo, undo again", []step{
			migrate("a"), status("a"), list("a"), verify("a"), verify("a", "--strict"), migrate("a"), verify("a"), redrive("a"), undo("a", kill{}), undo("a", kill{}), migrate("a"),
		}},
		{"an application writes, the same command again, undo keeps the documents", []step{
			migrate("a"), write(app("orders")), verify("a"), migrate("a"), migrate("a"), verify("a"), undo("a", kill{}), undo("a", kill{}),
		}},
		{"an application writes between two phases, undo keeps the documents", []step{
			phases("a", kill{}), write(app("weblogs")), migrate("a"), migrate("a"), undo("a", kill{}),
		}},
		{"a session whose name another one had does not count its failed documents", []step{
			strict("catalogue"), migrate("a"), redrive("a"), forget("a"), loosen("catalogue"), migrate("a", "--existing-documents", "overwrite"),
			write(some("catalogue")), redrive("a"), status("a"), verify("a"), verify("a", "--strict"),
		}},
		{"an application writes over documents that are still to come, which replace them", []step{
			phases("a", kill{}), write(some("catalogue")), migrate("a"), listed("a", "replaced_foreign"), redrive("a"), undo("a", kill{}),
		}},
		{"two sessions fill indices that one of them created", []step{
			phases("a", kill{}), migrate("b"), status("b"), migrate("a"), status("a"), verify("a"), verify("b"), migrate("b"), undo("b", kill{}), undo("a", kill{}),
		}},
		{"failed documents are delivered, and every command is content", []step{
			strict("catalogue"), migrate("a"), status("a"), verify("a"), redrive("a"), redrive("a"), migrate("a"), verify("a"), status("a"),
			loosen("catalogue"), redrive("a"), redrive("a"), status("a"), migrate("a"), verify("a"), undo("a", kill{}),
		}},
		{"a redrive is killed twice, and the next one delivers the rest", []step{
			strict("catalogue"), migrate("a"), loosen("catalogue"), redrive("a", kill{9, true}, kill{5, false}), status("a"), verify("a"), redrive("a"), migrate("a"), undo("a", kill{}),
		}},
		{"a pipeline drops documents", []step{
			dropping("weblogs", "level"), migrate("a"), status("a"), verify("a"), repaired("weblogs"), redrive("a"), migrate("a"), status("a"), verify("a"),
		}},
		{"an import asks before it creates or fills other indices", []step{
			export, strict("orders"), loosen("orders"), write(app("orders")), importing("b"), importing("b", "--existing-documents", "keep"), undo("b", kill{}),
		}},
		{"an import asks before it overwrites", []step{
			export, migrate("a"), write(app("orders")), importing("b"), importing("b", "--existing-documents", "keep"), importing("b"),
		}},
		{"an import into an empty cluster, twice, undo", []step{export, importing("b"), importing("b"), list("b"), undo("b", kill{}), importing("b")}},
		{"the target loses documents of an import", []step{export, lossyImport("b", "orders"), importing("c", "--existing-documents", "overwrite")}},
		{"an application writes while an import runs, undo keeps its document", []step{export, meanwhile("b", app("orders")), importing("b"), undo("b", kill{}), undo("b", kill{})}},
		{"a document failed twice, once without its source", []step{
			strict("catalogue"), migrate("a"), unsendable("a"), redrive("a"), loosen("catalogue"), redrive("a"), redrive("a"), migrate("a"), verify("a"),
		}},
		{"the target loses documents of an index with an alias", []step{lossy("a", "orders"), verify("a"), migrate("a"), undo("a", kill{})}},
		{"the target loses documents of an index that was there before", []step{
			strict("orders"), loosen("orders"), write(app("orders")), chooses("a", "overwrite"), lossy("a", "orders"), verify("a"), migrate("a"),
		}},
		{"the target loses documents of two indices", []step{lossy("a", "catalogue", "weblogs"), verify("a")}},
		{"the target loses documents of an index that was complete", []step{
			migrate("a"), forgetful("a", "orders"), forgetful("a", "weblogs"), verify("a", "--strict"), undo("a", kill{}),
		}},
		{"a second session asks, and overwrites when it is told to", []step{
			migrate("a"), migrate("b"), write(app("orders")), migrate("b", "--existing-documents", "overwrite"), undo("a", kill{}), undo("b", kill{}),
		}},
	})
}

// story is a sequence of steps.
type story struct {
	name  string
	steps []step
}

func tell(t *testing.T, all []story) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			parallel(t)
			w := newWorld(t)
			for _, s := range c.steps {
				if w.step(s); t.Failed() {
					return
				}
			}
		})
	}
}

// phases runs the phases of a migration but for the last, and may be killed.
func phases(name string, k kill) step {
	return func(w *world) {
		w.t.Helper()
		m, s := &w.model, w.model.session(name)
		args := append(w.load(s), "--phases", "metadata,indices")
		if m.orphaned(s) {
			return
		}
		s.tried = true
		if s.undone {
			w.command(kill{}, name, codes(1), "rfsd", "migrate", args...)
			return
		}
		w.begins(s)
		if w.command(k, name, codes(0), "rfsd", "migrate", args...) != -1 {
			m.open = false
			m.create(s)
		}
	}
}

var (
	seed  = flag.Uint64("story", 0, "the seed of the only random story to run")
	count = flag.Int("stories", 20, "how many random stories to run")
)

// TestStory_AtRandom draws sequences of commands, kills and writes: -stories of them, each with a seed of its own. -story=SEED
// replays one, but for the order in which concurrent requests of a process come.
func TestStory_AtRandom(t *testing.T) {
	parallel(t)
	seeds := []uint64{*seed}
	if *seed == 0 {
		seeds = seeds[:0]
		for range *count {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			parallel(t)
			t.Logf("go test ./testing/stories -run AtRandom -story=%d", seed)
			w, dice := newWorld(t), rand.New(rand.NewPCG(seed, 0))
			for range 6 + dice.IntN(8) {
				if w.step(draw(dice, w)); t.Failed() {
					return
				}
			}
		})
	}
}

// draw returns a step that can follow.
func draw(dice *rand.Rand, w *world) step {
	m := &w.model
	name := []string{"a", "a", "b", "c"}[dice.IntN(4)]
	if m.open { // the session whose process was killed goes on, and is perhaps killed again
		name = m.running
	}
	s, at := m.session(name), names[dice.IntN(len(names))]
	if name == "c" && !s.tried && dice.IntN(2) == 0 {
		s.verb = "import"
	}
	if s.verb == "import" && !m.exported {
		return export
	}
	var more []string
	if s.existing == "" && (!s.begun || s.asked) && (s.asked || !m.open && name != "a" && dice.IntN(3) > 0) {
		more = []string{"--existing-documents", []string{"overwrite", "keep"}[dice.IntN(2)]}
	}
	if s.verb == "migrate" && !s.tried && dice.IntN(5) == 0 {
		more = append(more, "--index-allowlist", at)
	}
	at = names[dice.IntN(len(names))]
	dies := func(most int) kill { return kill{1 + dice.IntN(most), dice.IntN(2) == 0} }
	run, deadly, removal := load(name, kill{}, more...), load(name, dies(70), more...), undo(name, []kill{{}, {}, dies(25)}[dice.IntN(3)])
	if m.open {
		return []step{run, run, deadly, status(name), list(name), verify(name), write(app(at)), removal}[dice.IntN(8)]
	}
	if !s.begun && dice.IntN(3) == 0 && !m.asks(s) {
		return []step{strict(at), dropping(at, "level"), write(app(at))}[dice.IntN(3)]
	}
	if !s.begun && s.verb == "migrate" && dice.IntN(4) == 0 {
		return phases(name, []kill{{}, dies(40)}[dice.IntN(2)])
	}
	if !s.begun {
		return []step{run, deadly}[dice.IntN(2)]
	}
	theirs := sorted(of(m.docs, at))
	some := app(at)
	if len(theirs) > 0 {
		some = theirs[dice.IntN(len(theirs))]
	}
	return []step{
		run, deadly, status(name), list(name), verify(name), verify(name, "--strict"), redrive(name), redrive(name, dies(25)), removal,
		write(app(at)), write(some), remove(some), loosen(at), repaired(at), export, otherOptions(name), forget(name),
	}[dice.IntN(17)]
}
