package cms

import (
	"slices"
	"testing"
)

// chainItem is an item of shard 0 of index a.
type chainItem struct {
	cursor int64
	ours   bool
	mark   int64
	next   []int64
	open   bool
	status string
}

func (x chainItem) item() Item {
	id := func(cursor int64) string { return ItemID{Index: "a", Cursor: cursor}.String() }
	it := NewItem(id(x.cursor), "c", 0)
	it.Watermark, it.Status = x.mark, x.status
	if x.ours {
		it.Engine = engine
	}
	if !x.open {
		it.CompletedAt = 1
	}
	for i, n := range x.next {
		if i > 0 {
			it.Successors += ","
		}
		it.Successors += id(n)
	}
	return it
}

func TestOnlyWhatAnotherEngineLeftHalfDoneIsTakenOver(t *testing.T) {
	for name, tc := range map[string]struct {
		items                   []chainItem
		restart, claim, replace []int64
	}{
		"nothing there":                 {},
		"seeded":                        {items: []chainItem{{open: true}}},
		"complete":                      {items: []chainItem{{}}},
		"complete in two":               {items: []chainItem{{next: []int64{50}}, {cursor: 50}}},
		"in the middle":                 {items: []chainItem{{next: []int64{50}}, {cursor: 50, open: true}}, restart: []int64{0}, replace: []int64{50}},
		"in the third part":             {items: []chainItem{{next: []int64{50}}, {cursor: 50, next: []int64{70}}, {cursor: 70, open: true}}, restart: []int64{0}, replace: []int64{70}},
		"successor not created":         {items: []chainItem{{open: true, next: []int64{50}}}, restart: []int64{0}},
		"handed off, not completed":     {items: []chainItem{{open: true, next: []int64{50}}, {cursor: 50}}, restart: []int64{0}},
		"half taken over":               {items: []chainItem{{open: true, ours: true}, {cursor: 50, open: true}}, replace: []int64{50}},
		"taken over":                    {items: []chainItem{{open: true, ours: true}, {cursor: 50, status: StatusReplaced}}},
		"a restart that was lost":       {items: []chainItem{{next: []int64{50}}, {cursor: 50, status: StatusReplaced}}, restart: []int64{0}},
		"ours":                          {items: []chainItem{{ours: true, mark: 50, next: []int64{50}}, {cursor: 50, ours: true, open: true}}},
		"ours, half handed off":         {items: []chainItem{{ours: true, open: true, mark: 50, next: []int64{50}}}},
		"ours, then theirs":             {items: []chainItem{{ours: true, mark: 50, next: []int64{50}}, {cursor: 50, ours: true, mark: 60, next: []int64{90}}, {cursor: 90, open: true}}, restart: []int64{50}, replace: []int64{90}},
		"theirs at our watermark":       {items: []chainItem{{ours: true, mark: 50, next: []int64{50}}, {cursor: 50, open: true}}, claim: []int64{50}},
		"replaced at our watermark":     {items: []chainItem{{ours: true, mark: 50, next: []int64{50}}, {cursor: 50, status: StatusReplaced}}, claim: []int64{50}},
		"theirs at ours, handed off":    {items: []chainItem{{ours: true, mark: 50, next: []int64{50}}, {cursor: 50, next: []int64{80}}, {cursor: 80, open: true}}, claim: []int64{50}, replace: []int64{80}},
		"theirs at our watermark, done": {items: []chainItem{{ours: true, mark: 50, next: []int64{50}}, {cursor: 50}}},
		"stray":                         {items: []chainItem{{ours: true}, {cursor: 50, open: true}}, replace: []int64{50}},
	} {
		t.Run(name, func(t *testing.T) {
			items := map[string]Item{}
			for _, x := range tc.items {
				it := x.item()
				items[it.ID] = it
			}
			got := planTakeover(ItemID{Index: "a"}.String(), items)
			for what, pair := range map[string][2][]int64{
				"restart": {cursors(t, got.Restart), tc.restart}, "claim foreign": {cursors(t, got.ClaimForeign), tc.claim}, "replace": {cursors(t, got.Replace), tc.replace},
			} {
				if !slices.Equal(pair[0], pair[1]) {
					t.Errorf("%s %v, want %v", what, pair[0], pair[1])
				}
			}
			carriedOut(t, items, got)
		})
	}
}

func cursors(t *testing.T, ids []string) (out []int64) {
	for _, s := range ids {
		id, err := ParseID(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, id.Cursor)
	}
	return out
}

// carriedOut applies a plan twice: the second time nothing changes, and no plan is left.
func carriedOut(t *testing.T, items map[string]Item, p takeover) {
	t.Helper()
	for round := range 2 {
		for _, step := range []struct {
			ids []string
			t   Transition
		}{{p.Restart, Restart{}}, {p.ClaimForeign, ClaimForeign{}}, {p.Replace, Replace{}}} {
			for _, id := range step.ids {
				it, v := step.t.Apply(items[id], 1000)
				if (v == Applied) != (round == 0) {
					t.Errorf("round %d: %s of %s: %v", round, step.t.Name(), id, v)
				}
				items[id] = it
			}
		}
	}
	if again := planTakeover(ItemID{Index: "a"}.String(), items); !again.empty() {
		t.Errorf("left to do: %+v", again)
	}
}

func TestTakeoverResults(t *testing.T) {
	theirs := chainItem{cursor: 50, open: true, next: []int64{70}}.item()
	held := theirs
	held.Holder, held.Expiration = "host_0b2f6c1e-9a37-4d52-8f0e-5c1f0a9be3d4", 100
	other := theirs
	other.ScriptVersion = "2.0"
	done := chainItem{cursor: 50}.item()
	for _, tc := range []struct {
		name string
		t    Transition
		it   Item
		now  int64
		want Result
	}{
		{"restart under a lease", Restart{GraceMs: 5000}, held, 104_000, Held},
		{"restart after it", Restart{GraceMs: 5000}, held, 105_001, Applied},
		{"replace under a lease", Replace{GraceMs: 5000}, held, 104_000, Held},
		{"replace after it", Replace{GraceMs: 5000}, held, 105_001, Applied},
		{"claim foreign under a lease", ClaimForeign{}, held, 104_000, Applied},
		{"replace what is done", Replace{}, done, 1, Done},
		{"replace a root", Replace{}, chainItem{open: true}.item(), 1, Already},
		{"claim foreign a root", ClaimForeign{}, chainItem{open: true}.item(), 1, Already},
		{"restart another version", Restart{}, other, 1, Foreign},
		{"replace another version", Replace{}, other, 1, Foreign},
		{"claim foreign another version", ClaimForeign{}, other, 1, Foreign},
	} {
		if _, v := tc.t.Apply(tc.it, tc.now); v != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, v, tc.want)
		}
	}
}

func TestHoldersOfAnotherEngineAreKnown(t *testing.T) {
	for holder, want := range map[string]bool{
		"": false, "host_pid12_ABCDEFGH_3": false, "host_0b2f6c1e-9a37-4d52-8f0e-5c1f0a9be3d4": true,
		"0b2f6c1e-9a37-4d52-8f0e-5c1f0a9be3d4": false, "host_0b2f6c1e-9a37-4d52-8f0e-5c1f0a9be3d4_7": false,
		"host_0b2f6c1e-9a37-4d52-8f0e-5c1f0a9be3dg": false, "generated__0B2F6C1E-9A37-4D52-8F0E-5C1F0A9BE3D4": true,
	} {
		ours := Item{Holder: holder, Engine: engine}
		theirs := Item{Holder: holder}
		if ours.foreignHolder() != want || theirs.foreignHolder() != (holder != "") {
			t.Errorf("%q: %v %v", holder, ours.foreignHolder(), theirs.foreignHolder())
		}
	}
}
